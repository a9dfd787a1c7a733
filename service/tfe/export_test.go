package tfe

// Routes returns the patterns of all routes that require a token.
func Routes() []string {
	var out []string
	for pattern := range (&server{}).routes() {
		out = append(out, pattern)
	}
	return out
}
