// Package simservice plays the runs of the service in virtual time: people who order, approve, cancel and lock, a store
// that refuses changes, and a service that dies at any change and starts again over what its store holds.
//
// The service is the real one, over a real store; the engine, the people and the crashes are simulated. Everything is
// in its tests.
package simservice
