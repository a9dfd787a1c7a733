package command

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
)

// OpenBrowser shows a page in the user's browser: with the program that the variable BROWSER names, when there is one,
// or with what the system opens pages with. It returns when that program has ended; the end of the context ends it.
func (a *App) OpenBrowser(ctx context.Context, url string) error {
	openers := [][]string{{"xdg-open"}, {"x-www-browser"}, {"www-browser"}, {"wslview"}}
	switch runtime.GOOS {
	case "darwin":
		openers = [][]string{{"open"}}
	case "windows":
		openers = [][]string{{"rundll32", "url.dll,FileProtocolHandler"}}
	}
	if name := a.Getenv("BROWSER"); name != "" && runtime.GOOS != "windows" {
		// other programs may mean something else by it: it need not exist
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
	return errors.New("there is no program that opens pages")
}
