// Package simservice simulates the runs of the service in virtual time: people who start, approve, cancel and lock,
// a store that rejects changes, and a service that crashes at any change and restarts with the content of its
// store.
//
// The service and its store are real; the engine, the people and the crashes are simulated. Everything is in its
// tests.
package simservice
