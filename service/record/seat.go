package record

// Seat is a place for an engine.
type Seat struct {
	Number int `json:"number"`
	// Epoch counts the engines that have taken the seat. What an engine of a lower epoch sends has no effect.
	Epoch uint64 `json:"epoch"`
}
