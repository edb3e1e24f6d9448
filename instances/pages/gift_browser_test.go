// SPDX-License-Identifier: Apache-2.0

//go:build browser

package pages_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestBrowserOffer offers an instance as one user and takes it as another.
//
// Shows: platform 4
func TestBrowserOffer(t *testing.T) {
	const bens = "oks_ben_bbbbbbbbbbbbbbbbbbbbbbbb"
	b := webtest.New(t)
	for _, script := range []bool{true, false} {
		t.Run(fmt.Sprintf("script %t", script), func(t *testing.T) {
			d := portaltest.NewPages(t, func(_ *portal.Options, p *access.Policy) {
				ben := statictoken.Token{ID: "ben", Hash: sha256.Sum256([]byte(bens)), Scopes: annasToken(t).Scopes}
				p.Tokens = []statictoken.Token{annasToken(t), ben}
			})
			tab := logged(t, b, d, script, "run/lab/vpc?p.size=large")
			tab.Wait("The link that you followed")
			tab.To("Name")
			tab.Press("net one")
			tab.To("Launch")
			tab.Enter()
			tab.Wait("Log of run 1")
			id := strings.TrimPrefix(tab.Path(), "/ui/instances/")
			d.Ready(t, id)
			tab.Wait("20:00 UTC")
			tab.To("Transfer …")
			tab.Enter()
			tab.Wait("Somebody else has a week to take it")
			tab.To("Someone else")
			tab.Press("user:ben")
			tab.To("Transfer")
			tab.Enter()
			tab.Wait("It is offered to ben")
			if o := d.Store.Record(t, id).Owner; o.ID != "anna" {
				t.Errorf("it is %+v's before he took it", o)
			}
			his := loggedAs(t, webtest.New(t), d, bens, script, "instances")
			his.Wait("offered by anna until")
			his.To("net one")
			his.Enter()
			his.Wait("anna offers it to ben")
			if text := his.Text(); strings.Contains(text, "large") || strings.Contains(text, "vpc.example.com") {
				t.Errorf("he sees values before he takes it:\n%s", text)
			}
			his.To("Take it")
			his.Enter()
			his.Wait("Open it")
			his.Wait("taken by ben: user ben")
			if o := d.Store.Record(t, id).Owner; o.ID != "ben" {
				t.Errorf("it is %+v's", o)
			}
		})
	}
}
