package view

import (
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/view/document"
)

// restsText lists the objects that a plan has not read, and those that it depends on; empty for a plan without this
// information.
func restsText(p *plan.Plan) string {
	r := p.Dependencies
	if r == nil {
		return ""
	}
	writes := make([]string, 0, len(r.Writes)+len(r.Outputs))
	for _, a := range r.Writes {
		writes = append(writes, a.String())
	}
	for _, name := range r.Outputs {
		writes = append(writes, "output."+name)
	}
	var reads, keeps []string
	for _, a := range r.Reads {
		reads = append(reads, a.String())
	}
	for _, k := range r.Keeps {
		keeps = append(keeps, k.String())
	}
	unread := ""
	if text := document.UnreadSentence(p.Unread); text != "" {
		unread = text + "\n"
	}
	return unread + restsLine("Its plan writes:", writes) + restsLine("It reads:", reads) +
		restsLine("It removes from:", keeps)
}

// restsLine lists addresses; only the first ones if there are many.
func restsLine(title string, list []string) string {
	const most = 10
	if len(list) == 0 {
		return ""
	}
	more := ""
	if len(list) > most {
		more, list = fmt.Sprintf(" and %d more", len(list)-most), list[:most]
	}
	return fmt.Sprintf("%-16s %s%s\n", title, strings.Join(list, ", "), more)
}
