// Package sshd runs SSH servers on loopback for tests.
//
// Two kinds: OpenSSH's own sshd, where the machine has it, and one inside the process, which every machine has and
// which also knows passwords. Both run commands as the user who runs the test.
package sshd
