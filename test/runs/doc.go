// Package runs has many runs come and go over one connection, as in a service that lives for days.
package runs
