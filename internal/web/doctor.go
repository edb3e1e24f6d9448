// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// Doctor reports the health of this replica, from data that its process has already. It
// waits only for data that was never read, at most two seconds.
type Doctor interface {
	Findings(ctx context.Context, now time.Time) []Finding
}

// Finding is one line of the doctor, for administrators.
type Finding struct {
	Verdict Verdict
	About   string // the subject
	State   string // its state
	Meaning string // of the state
	Do      string // what to do; "": nothing
}

// Verdict reports whether an administrator has to act.
type Verdict int

// The verdicts, the worst last.
const (
	Fine Verdict = iota // nothing to do
	Look                // it may become bad
	Act                 // something does not work, or soon will not
)

func (v Verdict) verdictMark() site.Mark {
	switch v {
	case Fine:
		return site.Mark{Text: "fine", Kind: "good"}
	case Look:
		return site.Mark{Text: "look", Kind: "warn"}
	}
	return site.Mark{Text: "act", Kind: "bad"}
}

// maxFindings bounds the lines that are shown, the worst ones: each signing key has one.
const maxFindings = 100

type doctorBody struct {
	Summary string
	Rows    []doctorRow
	More    int // number of lines that are not shown
}

type doctorRow struct {
	Mark                      site.Mark
	About, State, Meaning, Do string
}

// doctors shows the health of this replica.
type doctors struct {
	doctor Doctor
	now    func() time.Time
}

func (d *doctors) addRoutes(r *site.Routes) { r.Show("GET /ui/doctor", site.Administer, d.show) }

// show shows the findings, worst first.
func (d *doctors) show(r *site.Request) (*site.Page, error) {
	all := slices.Clone(d.doctor.Findings(r.Context(), d.now()))
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(b.Verdict, a.Verdict) })
	body := doctorBody{Summary: summarizeFindings(all), More: max(0, len(all)-maxFindings)}
	for _, f := range all[:min(len(all), maxFindings)] {
		body.Rows = append(body.Rows, doctorRow{f.Verdict.verdictMark(), text.Block(f.About), text.Block(f.State), text.Block(f.Meaning), text.Block(f.Do)})
	}
	return &site.Page{Template: "doctor.html", Title: "Doctor", Body: body}, nil
}

// summarizeFindings says in one sentence whether action is needed.
func summarizeFindings(all []Finding) string {
	bad := 0
	for _, f := range all {
		if f.Verdict != Fine {
			bad++
		}
	}
	switch {
	case len(all) == 0:
		return ""
	case bad == 0:
		return "No action is needed."
	case bad == 1:
		return "1 finding needs attention."
	}
	return text.Plural(bad, "finding") + " need attention."
}
