// Package sim is the seeded simulation of the whole system: coordinators, workers, NATS and clouds in one process,
// in virtual time, with all randomness from one seed.
//
// The product code is real: whole plans, applies and resumed runs of coordinator/operation, whole workers with
// their journals. The edges are simulated: NATS (with its guarantees, and no more), disks, clouds, the user. Each
// call from the product to an edge stops at a gate (world_test.go); the world lets the calls pass one at a time, so
// that a seed is replayed exactly. docs/guarantees.md says which guarantees are attacked, and how.
//
// Every fifth seed simulates a team (team_test.go): people who change one state at the same time. A service
// (service_test.go) executes their runs with coordinator/estate, like the real one, over a store in memory or the
// product's own in a file (teamstore_test.go). Its oracle is the ledger (ledger_test.go): it records the requests
// for locks, the changes of each run, and the versions that must result.
package sim
