// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/seed-141914ff/okara/internal/must"
)

// Tab is a browser tab that a test operates with the keyboard only. Problems of the pages
// that it opens are errors of the test.
type Tab struct {
	t      *testing.T
	ctx    context.Context
	w      *watcher
	script bool
}

// patience is how long a tab waits for something.
const patience = 3 * time.Minute

// Tab opens a page in a new browser context, without cookies.
func (b *Browser) Tab(t *testing.T, at string, look Look) *Tab {
	t.Helper()
	look.Width = cmp.Or(look.Width, b.Width, 1280)
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	p := &Tab{t: t, ctx: ctx, script: look.Script, w: newWatcher(append(look.Hosts, hostOf(at))...)}
	must.Succeed(t, look.configureTab(ctx, p.w))
	p.Go(at)
	t.Cleanup(func() { p.report(p.w.takeRecorded()) })
	return p
}

// Go opens another page.
func (p *Tab) Go(at string) {
	p.t.Helper()
	p.do("open "+at, chromedp.Navigate(at))
}

func (p *Tab) do(what string, action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, late := context.WithTimeout(p.ctx, patience)
	defer late()
	if err := chromedp.Do(ctx, action); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

func (p *Tab) evalText(expression string) string {
	p.t.Helper()
	ctx, late := context.WithTimeout(p.ctx, patience)
	defer late()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
	if err != nil { // the page is being left; callers wait for the next one
		return ""
	}
	return text
}

// Press presses keys, one after the other.
func (p *Tab) Press(keys string) {
	p.t.Helper()
	p.do(fmt.Sprintf("press %q", keys), chromedp.KeyEvent(keys))
}

// Enter presses the Enter key, which follows a link and sends a form.
func (p *Tab) Enter() {
	p.t.Helper()
	p.Press(kb.Enter)
}

// focused evaluates to the label of the focused element, with a prefix if the focus is not visible.
const focused = `(() => {
  const e = document.activeElement;
  if (!e || e === document.body) return "";
  const label = e.labels && e.labels.length ? e.labels[0].textContent : e.getAttribute("aria-label") || e.textContent;
  const seen = e.matches(":focus-visible") && getComputedStyle(e).outlineStyle !== "none";
  return (seen ? "" : "unseen: ") + label.trim().replace(/\s+/g, " ");
})()`

// Focused waits until the page itself moves the focus to an element whose label begins with name. A
// browser does so with the first frame that it paints, which may be after the text is there.
func (p *Tab) Focused(name string) {
	p.t.Helper()
	var at string
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if at = strings.TrimPrefix(p.focusedLabel(), "unseen: "); at != "" && strings.HasPrefix(at, name) {
			return
		}
	}
	p.t.Fatalf("%q has the focus, not %q", at, name)
}

// focusedLabel returns the label of the focused element; "": none.
func (p *Tab) focusedLabel() string {
	p.t.Helper()
	return p.evalText(focused)
}

// Element returns the name of the focused element, in lower case.
func (p *Tab) Element() string {
	p.t.Helper()
	return p.evalText(`document.activeElement.localName`)
}

// To moves the focus with the Tab key to the element whose label begins with name. On the
// way every focused element must show the focus.
func (p *Tab) To(name string) {
	p.t.Helper()
	var seen []string
	for range 300 {
		at := p.focusedLabel()
		for until := time.Now().Add(patience); strings.HasPrefix(at, "unseen: ") && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			at = p.focusedLabel() // styles may come after the text
		}
		if after, ok := strings.CutPrefix(at, "unseen: "); ok {
			p.t.Fatalf("the focus on %q cannot be seen", after)
		}
		if at != "" && strings.HasPrefix(at, name) {
			return
		}
		seen = append(seen, at)
		p.Press(kb.Tab)
	}
	p.t.Fatalf("the Tab key does not lead to %q, but to %q", name, seen[:min(len(seen), 60)])
}

// Offered waits until the focused field offers a value.
func (p *Tab) Offered(value string) {
	p.t.Helper()
	quoted := must.Get(json.Marshal(value))(p.t)
	const all = `[...(document.activeElement.list?.options ?? [])].map((o) => o.value)`
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if p.evalText(all+`.includes(`+string(quoted)+`) ? "yes" : ""`) == "yes" {
			return
		}
	}
	p.t.Fatalf("it never offered %q, but %s", value, p.evalText(all+`.join(", ")`))
}

// Wait waits until the page shows a text.
func (p *Tab) Wait(text string) { p.t.Helper(); p.awaitText(text, "") }

// Gone waits until the page does not show a text.
func (p *Tab) Gone(text string) { p.t.Helper(); p.awaitText(text, "!") }

func (p *Tab) awaitText(text, not string) {
	p.t.Helper()
	quoted := must.Get(json.Marshal(text))(p.t)
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if p.evalText(`document.readyState !== "loading" && `+not+`document.body.innerText.includes(`+string(quoted)+`) ? "yes" : ""`) == "yes" {
			return
		}
	}
	p.t.Fatalf("%s: %s%q never came:\n%s", p.Path(), not, text, p.Text())
}

// Clipboard replaces the clipboard of this page. It returns a function that waits for the
// text that the page copies.
func (p *Tab) Clipboard() func() string {
	p.t.Helper()
	if p.evalText(`navigator.clipboard.writeText = async (text) => { document.documentElement.dataset.copied = text }; "yes"`) != "yes" {
		p.t.Fatal("the page has no clipboard")
	}
	return func() string {
		p.t.Helper()
		for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			if text := p.evalText(`document.documentElement.dataset.copied || ""`); text != "" {
				return text
			}
		}
		p.t.Fatalf("%s copied nothing", p.Path())
		return ""
	}
}

// Text returns the text of the page.
func (p *Tab) Text() string {
	p.t.Helper()
	return p.evalText(`document.body.innerText`)
}

// Examine reports what is wrong with the page as it looks now.
func (p *Tab) Examine() {
	p.t.Helper()
	ctx, late := context.WithTimeout(p.ctx, patience)
	defer late()
	f := must.Get(chromedp.Run(ctx, chromedp.Evaluate[found](audit+".look()")))(p.t)
	for _, problem := range f.Problems {
		p.t.Errorf("%s: %s", p.Path(), problem)
	}
}

// Value returns what a script on the page evaluates to.
func (p *Tab) Value(script string) string {
	p.t.Helper()
	return p.evalText("String(" + script + ")")
}

// Path returns the path of the page, with its query.
func (p *Tab) Path() string {
	p.t.Helper()
	return p.evalText(`location.pathname + location.search`)
}
