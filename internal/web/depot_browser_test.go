// SPDX-License-Identifier: Apache-2.0

//go:build browser

package web_test

import (
	"fmt"
	"testing"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestBrowserDepot approves with the keyboard, also without script.
//
// Shows: pages 14
func TestBrowserDepot(t *testing.T) {
	b := webtest.New(t)
	s := newStateSite(t, rights.AnonymousAll()...)
	s.depots.fill(s.now)
	for i, look := range []webtest.Look{{Width: 1280, Theme: "light", Script: true}, {Width: 375, Theme: "dark"}} {
		t.Run(fmt.Sprintf("%s %d", look.Theme, look.Width), func(t *testing.T) {
			p := b.Tab(t, s.URL+"/ui/depot", look)
			p.Wait("Needs attention")
			p.To("Approve net/vpc/aws 1.4.0")
			p.Enter()
			p.Wait("net/vpc/aws 1.4.0 is published.")
			if len(s.depots.approved) != i+1 {
				t.Errorf("approved %v", s.depots.approved)
			}
		})
	}
}
