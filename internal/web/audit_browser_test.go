// SPDX-License-Identifier: Apache-2.0

//go:build browser

package web_test

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestBrowserAudit finds failed actions of the server itself with the keyboard.
func TestBrowserAudit(t *testing.T) {
	b := webtest.New(t)
	s := newStateSite(t)
	s.changes()
	for _, outcome := range []string{"done", "failed"} {
		s.records.Info("change", "action", "run-destroy", "kind", "instance", "address", "lab/vpc/"+outcome, "outcome", outcome, "mode", "server")
	}
	for _, script := range []bool{true, false} {
		p := b.Tab(t, s.URL+"/ui/login?return=/ui/audit", webtest.Look{Width: 1280, Theme: "dark", Script: script})
		logIn(p, callerToken(admin))
		p.Wait("Download all")
		p.To("Who")
		p.Press("server")
		p.To("Result")
		p.Press("f") // selects the first entry with this letter
		p.To("From")
		p.Enter()
		p.Wait("1 to 1 of 1")
		p.Wait("lab/vpc/failed")
		p.To("JSON lines")
	}
}
