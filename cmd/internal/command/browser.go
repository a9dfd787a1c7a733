package command

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
)

// OpenBrowser shows a page in the user's browser: with the program in the variable BROWSER if set, or else with
// the system's program for opening pages. It returns when that program has ended, and kills it when ctx ends.
func (a *App) OpenBrowser(ctx context.Context, url string) error {
	openers := [][]string{{"xdg-open"}, {"x-www-browser"}, {"www-browser"}, {"wslview"}}
	switch runtime.GOOS {
	case "darwin":
		openers = [][]string{{"open"}}
	case "windows":
		openers = [][]string{{"rundll32", "url.dll,FileProtocolHandler"}}
	}
	if name := a.Getenv("BROWSER"); name != "" && runtime.GOOS != "windows" {
		// BROWSER may name a missing program: other tools interpret it differently.
		openers = append([][]string{{name}}, openers...)
	}
	for _, words := range openers {
		program, err := exec.LookPath(words[0])
		if err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, program, append(words[1:], url)...)
		cmd.Env = a.Environ
		return cmd.Run()
	}
	return errors.New("no program for opening pages was found")
}
