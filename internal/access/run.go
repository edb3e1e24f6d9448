// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
)

const (
	runPrefix  = "okr_"
	runPurpose = "run token"

	// maxRunAfter is how long a token stays valid after the time limit of its run: the
	// last write is retried that long.
	maxRunAfter = 15 * time.Minute
)

// modeRun is the mode of callers with a run token.
const modeRun = "run"

// RunToken describes a token with which a run calls the server that started it.
type RunToken struct {
	Run    string         // ID/N/ATTEMPT, the argument of [Options].RunOver; N is its number in records
	Scopes []rights.Scope // at least one
	Limit  time.Duration  // time limit of the run from now; the token is valid for 15 minutes more
}

// runClaims are the sealed claims of a run token.
type runClaims struct {
	Run     string   `json:"r"`
	Scopes  []string `json:"s"`
	Expires int64    `json:"e"`
}

// NewRunToken makes a token for a run, "okr_<sealed>". It is not stored.
func (g *Guard) NewRunToken(t RunToken) (string, error) {
	if t.Run == "" || len(t.Scopes) == 0 || t.Limit <= 0 {
		return "", errors.New("run token: name, rights and time limit are required")
	}
	claims := runClaims{Run: t.Run, Expires: g.now().Add(t.Limit + maxRunAfter).Unix()}
	for _, s := range t.Scopes {
		claims.Scopes = append(claims.Scopes, s.String())
	}
	sealed, err := g.o.Keyring.Seal(runPurpose, claims)
	if err != nil {
		return "", fmt.Errorf("token of run %s: %w", t.Run, err)
	}
	return runPrefix + sealed, nil
}

// runCaller identifies a run, which pages and their API refuse: it is no user.
func (g *Guard) runCaller(r *http.Request, token string) (Caller, bool) {
	if strings.HasPrefix(r.URL.Path, "/ui/") || strings.HasPrefix(r.URL.Path, "/api/v1/") {
		return Caller{}, false
	}
	var claims runClaims
	if g.o.Keyring.Open(runPurpose, strings.TrimPrefix(token, runPrefix), &claims) != nil || g.now().Unix() >= claims.Expires {
		return Caller{}, false
	}
	if g.o.RunOver != nil && g.o.RunOver(claims.Run) {
		return Caller{}, false
	}
	c := Caller{Mode: modeRun, Subject: claims.Run, ends: time.Unix(claims.Expires, 0)}
	for _, text := range claims.Scopes {
		s, err := rights.ParseScope(text)
		if err != nil {
			return Caller{}, false
		}
		if s.Kind == addr.KindState && !strings.HasPrefix(r.URL.Path, stateAPI) {
			continue
		}
		c.scopes = append(c.scopes, s)
	}
	return c, true
}

// stateAPI is the only path where a run's rights to states count: it tells callers apart by locks.
const stateAPI = "/api/v2/"

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
