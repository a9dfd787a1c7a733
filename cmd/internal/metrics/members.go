package metrics

import "github.com/prometheus/client_golang/prometheus"

// Member is a member of the group that the service is of.
type Member struct {
	Name           string
	Leads, Answers bool
	Behind         int // by how many entries its copy of the records is behind the log
}

// Members registers the members of a group, as the leader knows them.
func (s *Set) Members(members func() []Member) {
	leads := desc("group_leads", "Is 1 for the member that leads the group.", "member")
	answers := desc("group_answers", "Is 1 when the member of the group answers the leader.", "member")
	behind := desc("group_behind_entries", "Entries of the log that the copy of a member of the group lacks.", "member")
	number := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	s.registry.MustRegister(&scraped{all: []*prometheus.Desc{leads, answers, behind},
		ask: func(gauge func(*prometheus.Desc, float64, ...string)) {
			for _, m := range members() {
				gauge(leads, number(m.Leads), m.Name)
				gauge(answers, number(m.Answers), m.Name)
				if m.Answers {
					gauge(behind, float64(m.Behind), m.Name)
				}
			}
		}})
}
