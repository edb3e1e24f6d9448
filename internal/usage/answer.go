// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
)

// UsedBy is a state that uses what was asked for.
type UsedBy struct {
	State     string    `json:"state"`
	Workspace string    `json:"workspace"`
	Instance  string    `json:"instance,omitempty"` // instead, the id of one
	Item                // what it uses
	Since     time.Time `json:"since"`         // in use at least since then
	N         int64     `json:"state_version"` // the newest version of the state
	Written   time.Time `json:"written"`
	By        string    `json:"by,omitempty"`
	Recorded  string    `json:"recorded"`
	Newest    string    `json:"newest,omitempty"` // version that fits the constraint, if known
	Status    string    `json:"status,omitempty"` // of the version in use: withdrawn, deprecated, critical, high
}

// Answer names the states that use something, as far as the caller may read them.
type Answer struct {
	Address  string    `json:"address"`
	Kind     string    `json:"kind"`
	States   []UsedBy  `json:"states"`
	Others   int       `json:"others,omitempty"`           // further states, and owners of instances, that use any version, from FewOthers on
	Some     bool      `json:"some_others,omitempty"`      // there are fewer
	Bare     int       `json:"not_recorded,omitempty"`     // readable states without a record of what they use
	Loose    int       `json:"unknown_versions,omitempty"` // readable states that use it, without saying a version, which no constraint matches
	Partial  bool      `json:"-"`                          // some state has a record that is not complete
	Complete bool      `json:"complete"`                   // all states were read, and what is known of the versions
	Cut      bool      `json:"cut,omitempty"`              // there are more states than listed
	Read     time.Time `json:"read,omitzero"`              // when they were last
	hidden   int       // as Others, below FewOthers too
}

// maxAnswer bounds the states of an answer.
const maxAnswer = 10_000

// Ask answers a query for a caller that may read the states for which may is true.
func (x *Index) Ask(q Query, may func(state, workspace string) bool) Answer {
	a := Answer{Address: q.Source, Kind: q.Kind, States: []UsedBy{}}
	visible := map[*Entry]bool{}
	others := 0
	for it, users := range x.users {
		if !q.matchesItem(it) {
			continue
		}
		selected := q.selectsItem(it)
		for _, e := range users {
			seen, asked := visible[e]
			if !asked {
				seen = may(e.State, e.Workspace)
				visible[e] = seen
				if !seen {
					others++
				}
			}
			if seen && !selected && it.Version == "" && q.onHost(it) {
				a.Loose++
			}
			if seen && selected && len(a.States) == maxAnswer {
				a.Cut = true
			} else if seen && selected {
				a.States = append(a.States, e.asUser(it))
			}
		}
	}
	for e := range x.bare {
		if e.Recorded != "" {
			a.Partial = true
		} else if may(e.State, e.Workspace) {
			a.Bare++
		}
	}
	slices.SortFunc(a.States, compareUses)
	a.addHidden(others)
	return a
}

func (a *Answer) addHidden(n int) {
	a.hidden += n
	a.Some = a.hidden > 0 && a.hidden < FewOthers
	a.Others = 0
	if !a.Some {
		a.Others = a.hidden
	}
}

// AddInstances adds the instances that use what is asked for, in any version, as far as the caller may see
// them, and the number of owners of the others. host is the name of this server, whose modules they use; "": any is.
func (a *Answer) AddInstances(q Query, host string, seen []UsedBy, hidden int) {
	if q.host != "" && host != "" && q.host != host {
		return
	}
	q.host = ""
	for _, u := range seen {
		if !q.selectsItem(&u.Item) {
			continue
		}
		if a.Cut = len(a.States) >= maxAnswer; a.Cut {
			a.Complete = false
			break
		}
		a.States = append(a.States, u)
	}
	slices.SortFunc(a.States, compareUses)
	a.addHidden(hidden)
}

// Judge adds what is known about the versions in use; judge is asked once for each.
func (a *Answer) Judge(judge func(Item) Verdict) {
	verdicts := map[Item]Verdict{}
	for i := range a.States {
		s := &a.States[i]
		v, known := verdicts[s.Item]
		if !known {
			v = judge(s.Item)
			verdicts[s.Item] = v
		}
		s.Newest = v.Newest
		s.Status = v.Status
		a.Complete = a.Complete && !v.Unread
	}
}

// CountUsers counts the states and instances of an answer, as text: one may use several versions.
func (a *Answer) CountUsers() string {
	states := map[[2]string]bool{}
	instances := map[string]bool{}
	for _, s := range a.States {
		if s.Instance != "" {
			instances[s.Instance] = true
		} else {
			states[[2]string{s.State, s.Workspace}] = true
		}
	}
	said := text.Plural(len(states), "state")
	if len(instances) > 0 {
		said += " and " + text.Plural(len(instances), "instance")
	}
	return said
}

// UserName names the state or instance.
func (u *UsedBy) UserName() string {
	if u.Instance != "" {
		return "instance " + u.Instance
	}
	return u.State
}

func (e *Entry) asUser(it *Item) UsedBy {
	u := UsedBy{State: e.State, Workspace: e.Workspace, Item: *it, N: e.N, Written: e.Written, By: e.By, Recorded: e.Recorded}
	for _, use := range e.Uses {
		if use.Item == it {
			u.Since = time.Unix(use.Since, 0).UTC()
		}
	}
	return u
}

func compareUses(a, b UsedBy) int {
	return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.State, b.State), cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Version, b.Version))
}
