// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/rights"
)

// runSubject begins the subjects of runs, as of a cluster's operator; the rest is one object's
// identity, even among objects that have the same name in turn.
const runSubject = "run:"

// Run returns the subject of a run, which may use only the states that it owns, or "".
func (c Caller) Run() string {
	if c.Issuer == "" || !strings.HasPrefix(c.Subject, runSubject) {
		return ""
	}
	return c.Subject
}

// isStray reports whether a run is not at /state/, where alone its rights to states count.
func (c Caller) isStray(r *http.Request) bool {
	return c.Run() != "" && !strings.HasPrefix(r.URL.Path, "/state/")
}

// onlyKinds returns the caller with only the rights to the kinds that keep accepts.
func (c Caller) onlyKinds(keep func(rights.Kind) bool) Caller {
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
