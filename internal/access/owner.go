// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/rights"
)

// runSubject is what subjects of runs begin with, for whom an issuer such as the
// operator of a cluster makes tokens. What follows tells one object from all others,
// also of its name.
const runSubject = "run:"

// Run is the subject of a run, which may use the states that name it as their owner and
// no other; "" if the caller is somebody else.
func (c Caller) Run() string {
	if c.Issuer == "" || !strings.HasPrefix(c.Subject, runSubject) {
		return ""
	}
	return c.Subject
}

// strays reports whether a run is on another route than that of states, where no right
// to a state counts that it has: the history of its state may be another one's.
func (c Caller) strays(r *http.Request) bool {
	return c.Run() != "" && !strings.HasPrefix(r.URL.Path, "/state/")
}

// only leaves a caller the rights to some kinds.
func (c Caller) only(keep func(rights.Kind) bool) Caller {
	var scopes []rights.Scope
	var rules []string
	for i, s := range c.scopes {
		if !keep(s.Kind) {
			continue
		}
		scopes = append(scopes, s)
		if c.rules != nil {
			rules = append(rules, c.rules[i])
		}
	}
	c.scopes = scopes
	c.rules = rules
	return c
}
