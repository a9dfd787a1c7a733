package view

import "strings"

// Ink says whether text is coloured. The escape sequences are those of OpenTofu, so that programs that post-process
// its coloured output keep working.
type Ink bool

const (
	resetCode     = "\x1b[0m"
	boldCode      = "\x1b[1m"
	underlineCode = "\x1b[4m"
	redCode       = "\x1b[31m"
	greenCode     = "\x1b[32m"
	yellowCode    = "\x1b[33m"
	cyanCode      = "\x1b[36m"
	grayCode      = "\x1b[90m"
)

// on returns the escape sequences, or nothing if text is not coloured.
func (k Ink) on(codes string) string {
	if !k {
		return ""
	}
	return codes
}

// off resets all colours.
func (k Ink) off() string { return k.on(resetCode) }

// Bold returns text in bold, as headlines are.
func (k Ink) Bold(text string) string { return k.on(boldCode) + text + k.on(resetCode+resetCode) }

// Success returns a message of success: the first word, up to the exclamation mark, in bold green.
func (k Ink) Success(text string) string {
	head, rest, found := strings.Cut(text, "!")
	if !found {
		return k.on(boldCode+greenCode) + text + k.on(resetCode+resetCode)
	}
	return k.on(greenCode+boldCode) + head + "!" + k.off() + rest + k.off()
}
