// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"context"
	"strings"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/seed-141914ff/okara/internal/must"
)

// Untraced checks that the browser of a tab keeps a session cookie, or none, that no
// script can read, and nothing else; and that no secret is in a cookie, on the page, or
// in an address that the tab ever requested.
func (p *Tab) Untraced(session bool, secrets ...string) {
	p.t.Helper()
	ctx, late := context.WithTimeout(p.ctx, patience)
	defer late()
	kept := must.Get(chromedp.Run(ctx, chromedp.Evaluate[[]string](audit+".kept()", chromedp.EvalAwaitPromise)))(p.t)
	if len(kept) > 0 {
		p.t.Errorf("the browser keeps %v", kept)
	}
	got := must.Get(chromedp.Call(ctx, network.GetCookies, network.GetCookiesParams{}))(p.t)
	if session != (len(got.Cookies) > 0) {
		p.t.Errorf("there is a session: %v, with %d cookies", session, len(got.Cookies))
	}
	places := append(p.w.requestedURLs(), p.Text())
	for _, c := range got.Cookies {
		if !c.HTTPOnly || c.SameSite != network.CookieSameSiteLax || c.Session {
			p.t.Errorf("%s: HttpOnly %v, SameSite %q, as long as the browser runs: %v", c.Name, c.HTTPOnly, c.SameSite, c.Session)
		}
		places = append(places, c.Value)
	}
	for _, place := range places {
		for _, secret := range secrets {
			if strings.Contains(place, secret) {
				p.t.Errorf("a secret is in %.300s", place)
			}
		}
	}
}
