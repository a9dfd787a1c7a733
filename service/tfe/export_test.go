package tfe

// Routes are the patterns of all that is for those who have a token.
func Routes() []string {
	var out []string
	for pattern := range (&server{}).routes() {
		out = append(out, pattern)
	}
	return out
}
