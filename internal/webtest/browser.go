// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Browser is a Chromium of one test. It reaches loopback addresses only.
type Browser struct{ ctx context.Context }

// New starts a browser, or skips the test where there is none: OKARA_TEST_CHROMIUM
// names it, else it is chromium on PATH.
func New(t *testing.T) *Browser {
	t.Helper()
	program := os.Getenv("OKARA_TEST_CHROMIUM")
	if program == "" {
		var err error
		if program, err = exec.LookPath("chromium"); err != nil {
			t.Skip("no browser: neither OKARA_TEST_CHROMIUM nor chromium on PATH")
		}
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &Browser{ctx}
}

// Look is how pages are looked at.
type Look struct {
	Width  int    // of the window, in CSS pixels
	Theme  string // light or dark
	Script bool
	Token  string // of who looks, "" for nobody
}

// Page is what there was to see.
type Page struct {
	URL    string // without the host
	Bytes  int    // of everything that was loaded for it, as it came over the network
	Loaded int    // requests, without images that the page is about and streams
}

// Crawl follows every link below start that the pages have, each once, as long as
// more than most were not seen. Whatever is wrong with a page is an error of the test.
func (b *Browser) Crawl(t *testing.T, start string, look Look, most int) []Page {
	t.Helper()
	origin, err := url.Parse(start)
	if err != nil {
		t.Fatal(err)
	}
	seen, queue := map[string]bool{start: true}, []string{start}
	var pages []Page
	for len(queue) > 0 && len(pages) < most {
		at := queue[0]
		queue = queue[1:]
		p, links := b.open(t, at, look)
		pages = append(pages, p)
		for _, l := range links {
			u, err := url.Parse(l)
			if err != nil || u.Host != origin.Host || !strings.HasPrefix(u.Path, origin.Path) {
				continue
			}
			u.Fragment = ""
			if text := u.String(); !seen[text] {
				seen[text] = true
				queue = append(queue, text)
			}
		}
	}
	return pages
}

// found is what the audit in the page found.
type found struct {
	Problems []string `json:"problems"`
	Links    []string `json:"links"`
}

// open loads one page and says what is wrong with it.
func (b *Browser) open(t *testing.T, at string, look Look) (Page, []string) {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	defer end()
	ctx, late := context.WithTimeout(ctx, 2*time.Minute)
	defer late()
	w := &watcher{host: hostOf(at)}
	if err := look.apply(ctx, w); err != nil {
		t.Fatal(err)
	}
	err := chromedp.Do(ctx, chromedp.Navigate(at))
	var f found
	if err == nil {
		f, err = chromedp.Run(ctx, chromedp.Evaluate[found](audit))
	}
	u, _ := url.Parse(at)
	name := fmt.Sprintf("%s at %d px, %s", u.RequestURI(), look.Width, look.Theme)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return Page{URL: u.RequestURI()}, nil
	}
	p, problems := w.result()
	if p.Loaded > maxLoaded {
		problems = append(problems, fmt.Sprintf("it loads %d files, more than %d", p.Loaded, maxLoaded))
	}
	p.URL = u.RequestURI()
	for _, problem := range append(problems, f.Problems...) {
		t.Errorf("%s: %s", name, problem)
	}
	return p, f.Links
}

// apply makes a new tab look so, and w hear what happens in it.
func (l Look) apply(ctx context.Context, w *watcher) error {
	if err := chromedp.Do(ctx); err != nil {
		return err
	}
	if err := chromedp.Listen(ctx, w.hear); err != nil {
		return err
	}
	_, enabled := chromedp.Call(ctx, audits.Enable, cdp.Empty{})
	_, scripted := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !l.Script})
	_, themed := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.Theme}},
	})
	var known error
	if l.Token != "" {
		_, known = chromedp.Call(ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Bearer " + l.Token}})
	}
	return errors.Join(enabled, scripted, themed, known, chromedp.Do(ctx, chromedp.EmulateViewport(int64(l.Width), 900)))
}

// maxLoaded is the files of a page: itself, its style and its script.
const maxLoaded = 3

func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return u.Host
}

// watcher hears what happens while a page loads.
type watcher struct {
	mu       sync.Mutex // guards the fields below
	host     string
	problems []string
	page     Page
}

func (w *watcher) hear(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		w.add("exception: %s", e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if t := string(e.Type); t == "error" || t == "warning" {
			w.add("console: %s", t)
		}
	case *audits.EventIssueAdded:
		w.add("issue: %s", e.Issue.Code)
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Host != w.host {
			w.add("it asks another host: %s", e.Request.URL)
			return
		}
		asset := strings.Contains(u.Path, "/assets/")
		picture := e.Type == network.ResourceTypeImage && !asset
		icon := e.Type == network.ResourceTypeOther && asset // of the tab, which the browser loads once for all pages
		if !picture && !icon && e.Type != network.ResourceTypeEventSource && e.RedirectResponse == nil {
			w.page.Loaded++
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 && e.Response.Status != http.StatusUnprocessableEntity { // which is a form with a mistake in it
			w.add("%s is %d", e.Response.URL, e.Response.Status)
		}
	case *network.EventLoadingFinished:
		w.page.Bytes += int(e.EncodedDataLength)
	}
}

func (w *watcher) add(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *watcher) result() (Page, []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.page, w.problems
}

// Picture writes a page as PNG.
func (b *Browser) Picture(t *testing.T, at, file string, look Look) {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	defer end()
	if err := look.apply(ctx, &watcher{host: hostOf(at)}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(at)); err != nil {
		t.Fatal(err)
	}
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o600); err != nil {
		t.Fatal(err)
	}
}

// audit looks at a page that has loaded.
const audit = `(() => {
  const problems = [];
  const say = (text) => problems.push(text);
  const name = (e) => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.className && e.className.trim ? "." + e.className.trim().replaceAll(" ", ".") : "");
  const ids = new Map();
  for (const e of document.querySelectorAll("[id]")) ids.set(e.id, (ids.get(e.id) || 0) + 1);
  for (const [id, n] of ids) if (n > 1) say(n + " elements have the id " + id);
  const h1 = document.querySelectorAll("h1").length;
  if (h1 !== 1) say(h1 + " headings of level one");
  let level = 1;
  for (const h of document.querySelectorAll("main h1, main h2, main h3, main h4, main h5, main h6")) {
    const now = Number(h.tagName[1]);
    if (now > level + 1) say("heading of level " + now + " below one of level " + level + ": " + h.textContent);
    level = now;
  }
  if (!document.documentElement.lang) say("no language");
  for (const i of document.querySelectorAll("img")) if (!i.hasAttribute("alt")) say("an image without a text: " + i.src);
  for (const f of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
    if (!f.closest(".markdown") && !(f.labels && f.labels.length) && !f.getAttribute("aria-label")) say("a field without a label: " + name(f));
  for (const e of document.querySelectorAll("a[href], button, summary")) {
    const text = (e.getAttribute("aria-label") || e.textContent || "").trim();
    if (!text && !e.hidden) say("nothing names " + name(e));
  }
  for (const e of document.querySelectorAll("[style]")) say("a style of its own: " + name(e));
  const visible = (e) => e.checkVisibility ? e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) : true;
  if (document.documentElement.scrollWidth > window.innerWidth)
    say("wider than the window: " + document.documentElement.scrollWidth + " px, by " + [...document.querySelectorAll("body *")].filter((e) => visible(e) && !e.closest(".scroll, pre, .hidden") && e.getBoundingClientRect().right > window.innerWidth).slice(0, 3).map(name).join(", "));
  if (window.innerWidth < 400)
    for (const s of document.querySelectorAll(".scroll")) if (s.scrollWidth > s.clientWidth + 1 && visible(s)) say("a table wider than the window: " + s.getAttribute("aria-label"));
  const part = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const color = (text) => { const m = text.match(/[\d.]+/g).map(Number); return { r: m[0], g: m[1], b: m[2], a: m.length > 3 ? m[3] : 1 }; };
  const light = (c) => 0.2126 * part(c.r) + 0.7152 * part(c.g) + 0.0722 * part(c.b);
  const back = (e) => { for (; e; e = e.parentElement) { const c = color(getComputedStyle(e).backgroundColor); if (c.a > 0) return c; } return { r: 255, g: 255, b: 255 }; };
  const told = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (!visible(e) || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const a = light(color(getComputedStyle(e).color)), b = light(back(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5 && !told.has(name(e))) { told.add(name(e)); say("contrast " + ratio.toFixed(2) + " of " + name(e)); }
  }
  return { problems, links: [...document.querySelectorAll("a[href]")].map((a) => a.href) };
})()`
