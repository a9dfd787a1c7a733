package record

import "time"

// Seat is a place for an engine.
type Seat struct {
	Number int `json:"number"`
	// Epoch counts the engines that have taken the seat. What an engine of a lower epoch sends has no effect.
	Epoch uint64 `json:"epoch"`
	// Identity is the coordinator that sits here, in the form of its file, if the service is that of a group: whoever
	// leads goes on as this coordinator. Seat 0 is the service itself.
	Identity []byte `json:"identity,omitempty"`
}

// Member is a member of the group that the service is of.
type Member struct {
	Name    string    `json:"name"`
	Address string    `json:"address"` // where the others reach it
	Program string    `json:"program"` // its version of Millipede
	Joined  time.Time `json:"joined"`
}

// LogStore is a workspace's store in the log of the group.
type LogStore struct {
	Name string
	// Made says that the log has had entries of the store. Before, and only then, it may have none.
	Made bool
}
