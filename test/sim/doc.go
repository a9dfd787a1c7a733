// Package sim holds the seeded simulation of the whole: coordinators, workers, NATS and clouds in one process, in
// virtual time, with all chance from one seed.
//
// What runs is the product: whole plans, applies and resumed runs of coordinator/operation, whole workers with their
// journal. Simulated are the edges: NATS (with what it promises, and no more), the disks, the clouds, the user. Each
// call that leaves the product for an edge stops at a gate (world_test.go); the world lets them through one at a time,
// so that a seed is replayed exactly. docs/guarantees.md says what is attacked, and how.
package sim
