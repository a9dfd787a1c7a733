// Package sim holds the seeded simulation of the whole: coordinators, workers, NATS and clouds in one process, in
// virtual time, with all chance from one seed.
//
// What runs is the product: whole plans, applies and resumed runs of coordinator/operation, whole workers with their
// journal. Simulated are the edges: NATS (with what it promises, and no more), the disks, the clouds, the user. Each
// call that leaves the product for an edge stops at a gate (world_test.go); the world lets them through one at a time,
// so that a seed is replayed exactly. docs/guarantees.md says what is attacked, and how.
//
// Every fifth seed plays a team (team_test.go): people who change one state at the same time. A service
// (service_test.go) carries their runs out with coordinator/estate, as the real one does, over a store in memory or the
// product's own in a file (teamstore_test.go). The ledger (ledger_test.go) is the oracle of that: it follows who asked
// for which locks, what each run has changed, and which versions must come of it.
package sim
