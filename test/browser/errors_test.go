//go:build unix

package browser

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millipede-iac/millipede/service/record"
)

// The page said that the connection was lost, and tried to reconnect for ever.
func TestAPageWhoseSessionHasEndedAsksForALoginAndComesBack(t *testing.T) {
	s := Open(t)
	newEstate(s).objects = network()
	run := s.NewRun(s.NewWorkspace("network"), nil)
	s.Await(run.ID, record.Planned)
	s.login()
	path := "/app/acme/network/runs/" + run.ID
	s.open(path)
	all, err := s.Tokens.List(s.Admin, record.TokenUser, s.Admin.User.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range all {
		if token.Description == "pages" {
			if err := s.Tokens.Delete(s.Admin, token.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Runs.Comment(s.Admin, run.ID, "said meanwhile"); err != nil { // the page is told, and fetches itself
		t.Fatal(err)
	}
	s.until("nobody is asked to log in", `location.pathname === "/app/login"`)
	s.until("the name has no focus", `document.activeElement.id === "username"`)
	s.do(chromedp.KeyEvent("root\t" + s.Token + "\r"))
	s.until("it does not come back", `location.pathname === `+quoted(path))
	s.shows("said meanwhile")
	s.forgive("Failed to load resource")
}

func TestAnErrorSaysWhatToDo(t *testing.T) {
	s := Open(t)
	s.NewWorkspace("network")
	s.login()
	s.do(chromedp.Navigate(s.Address + "/app/acme/nothing"))
	s.shows(`There is no workspace "nothing" in acme, or you have no access to it.`)
	s.do(chromedp.Click(`//main//a[text()="Go to the workspaces"]`, chromedp.BySearch))
	s.shows("Workspaces of acme")
	s.do(chromedp.Evaluate(`document.querySelector('form.who input').value = "of another session"`, nil),
		chromedp.Click(`form.who button`, chromedp.ByQuery))
	s.shows("This form is not from a page of your session")
	s.screenshot("error", 800, 300)
	s.forgive("Failed to load resource")
}
