// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/web"
)

// Findings implements [web.Doctor].
func (s *stateSite) Findings(context.Context, time.Time) []web.Finding { return s.findings }

// findings returns one of each verdict, a hostile one included.
func findings() []web.Finding {
	return []web.Finding{
		{About: "Queue", State: "0 waiting", Meaning: "All is done."},
		{Verdict: web.Act, About: "Key <b>\u202e\x1b[31m", State: `"><script>alert(1)</script>`, Meaning: strings.Repeat("long", 500), Do: "javascript:alert(1)"},
		{Verdict: web.Look, About: "Disk", State: "3 GiB of 40 GiB are free", Meaning: "Less than a tenth is left.", Do: "Free space soon."},
	}
}

// TestDoctorPage shows the worst first, in words, and no part of a finding is markup.
func TestDoctorPage(t *testing.T) {
	s := newStateSite(t, rights.AnonymousAll()...)
	s.findings = findings()
	_, body := s.ask(t, admin, http.MethodGet, "doctor", nil)
	last := -1
	for _, text := range []string{"2 findings need attention.", `<span class="mark bad">act</span> Key &lt;b&gt;`, "&lt;script&gt;alert(1)", "javascript:alert(1)</span>", `<span class="mark warn">look</span> Disk`, "Free space soon.", `<span class="mark good">fine</span> Queue`} {
		at := strings.Index(body, text)
		if at <= last {
			t.Errorf("%q is at %d, after %d, in\n%s", text, at, last, body)
		}
		last = at
	}
	for _, text := range []string{"<b>", "<script>alert", "\u202e", "\x1b"} {
		if strings.Contains(body, text) {
			t.Errorf("%q is in\n%s", text, body)
		}
	}
}

// TestDoctorEnds shows an empty doctor, and one with more than a page can show.
func TestDoctorEnds(t *testing.T) {
	s := newStateSite(t)
	says := func(want ...string) {
		t.Helper()
		resp, body := s.ask(t, admin, http.MethodGet, "doctor", nil)
		for _, text := range want {
			if resp.StatusCode != http.StatusOK || !strings.Contains(body, text) {
				t.Errorf("status %d, no %q in\n%s", resp.StatusCode, text, body)
			}
		}
	}
	says("Nothing was measured yet.")
	s.findings = findings()[:1]
	says("No action is needed.")
	s.findings = findings()[1:2]
	says("1 finding needs attention.")
	for i := range 120 {
		s.findings = append(s.findings, web.Finding{About: fmt.Sprint("Key ", i)})
	}
	says("21 more are not shown.", "Key 98<", "1 finding needs attention.")
}
