package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/web"
)

// Nobody could see what the configurations of a service are kept from, nor that one of them ends its engine again and
// again.
func TestAdministratorsSeeTheEnginesAndWhatTheyAreKeptFrom(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	b.engines = web.Engines{Confinement: "Landlock <confines> them.", Seats: []web.Seat{
		{Number: 1, Program: "1.2.3", Since: time.Now().Add(-time.Minute), Calls: 3, Restarts: 7},
		{Number: 2, Trouble: "there is no <memory>"}}}
	_, _, text := b.get("/app/settings/workers")
	for _, want := range []string{"Landlock &lt;confines&gt; them.", "3 phases", "Millipede 1.2.3", "7 times", ">missing<",
		"there is no &lt;memory&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not show %q", want)
		}
	}
	ann, err := b.Users.Create(b.Admin, "ann", "", false)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := b.Tokens.Create(b.Admin, record.TokenUser, ann.ID, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	b.client = b.person()
	b.login("ann", token)
	if _, _, text := b.get("/app/settings/workers"); strings.Contains(text, "Landlock") {
		t.Error("everybody sees them")
	}
}

// Who leads a group was in the logs of its members alone.
func TestAdministratorsSeeTheMembersOfTheGroup(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	if _, _, text := b.get("/app/settings/workers"); strings.Contains(text, "Members of the group") {
		t.Error("a single service shows members")
	}
	b.engines = web.Engines{Members: []service.Member{
		{Name: "a<1>", Address: "one:8443", Program: "1.2.3", Leads: true, Answers: true, Since: time.Now()},
		{Name: "b", Program: "1.2.4", Answers: true, Behind: 1, Since: time.Now()},
		{Name: "c", Since: time.Now().Add(-time.Hour)}}}
	_, _, text := b.get("/app/settings/workers")
	for _, want := range []string{"a&lt;1&gt;", "one:8443", ">leads<", "Millipede 1.2.3", ">follows<", "1 entry",
		"does not answer"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not show %q", want)
		}
	}
}
