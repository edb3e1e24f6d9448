// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/seed-141914ff/okara/internal/must"
)

// View is a width and a theme in which a page is examined.
type View struct {
	Width int    // of the window, in CSS pixels
	Theme string // light or dark
}

// Views returns those in which a page has to be usable: a desktop and a phone, light and
// dark, and the narrowest window that WCAG 2.2 requires.
func Views() []View { return []View{{1280, "light"}, {1280, "dark"}, {375, "dark"}, {320, "light"}} }

// Page describes a page that was loaded.
type Page struct {
	URL    string // without the host
	Bytes  int    // total bytes over the network
	Loaded int    // number of requests, without images of the content and streams
}

// maxLoaded is the number of files of a page: itself, its style and its script.
const maxLoaded = 3

// alike is how many pages with the same path and the same parameter names are examined:
// other differences are data.
const alike = 2

// Crawl follows every link of the pages below a path, each once, with the rights of the tab's user,
// except that only [alike] similar pages are opened. It stops with an error after limit pages. It
// examines each page in all [Views]; every problem is an error of the test.
func (p *Tab) Crawl(below string, limit int) []Page {
	p.t.Helper()
	root := must.Get(url.Parse(below))(p.t)
	seen := map[string]int{below: 1}
	queue := []string{below}
	p.report(p.w.takeRecorded()) // of the pages before
	var pages []Page
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if len(pages) == limit {
			p.t.Errorf("more than %d pages", limit)
			break
		}
		page, links := p.loadPage(at)
		pages = append(pages, page)
		for _, l := range links {
			u, err := url.Parse(l)
			if err != nil || u.Host != root.Host || !strings.HasPrefix(u.Path, root.Path) {
				continue
			}
			u.Fragment = ""
			text := u.String()
			kind := u.Path + "?" + strings.Join(slices.Sorted(maps.Keys(u.Query())), "&")
			if docs := root.Path + "docs/"; strings.HasPrefix(u.Path, docs) {
				kind = docs // pages of okara's own documentation are alike
			}
			if seen[text] > 0 || seen[kind] == alike {
				continue
			}
			seen[text]++
			if kind != text {
				seen[kind]++
			}
			queue = append(queue, text)
		}
	}
	return pages
}

// found has the problems and the links of a page.
type found struct {
	Problems []string `json:"problems"`
	Links    []string `json:"links"`
}

func (p *Tab) loadPage(at string) (Page, []string) {
	p.t.Helper()
	u := must.Get(url.Parse(at))(p.t)
	ctx, late := context.WithTimeout(p.ctx, patience)
	defer late()
	f, err := p.examine(ctx, at)
	if err != nil {
		p.t.Errorf("%s: %v", u.RequestURI(), err)
	}
	page, problems := p.w.takeRecorded()
	page.URL = u.RequestURI()
	if page.Loaded > maxLoaded {
		problems = append(problems, fmt.Sprintf("it loads %d files, more than %d", page.Loaded, maxLoaded))
	}
	p.report(page, append(problems, f.Problems...))
	return page, f.Links
}

func (p *Tab) report(page Page, problems []string) {
	p.t.Helper()
	for _, problem := range problems {
		p.t.Errorf("%s: %s", page.URL, problem)
	}
}

//go:embed audit.js
var audit string

// examine loads a page in a tab and examines it in every view.
func (p *Tab) examine(ctx context.Context, at string) (found, error) {
	if err := chromedp.Do(ctx, chromedp.Navigate(at)); err != nil {
		return found{}, err
	}
	if !p.script { // without the script the page would reload itself during the examination
		if err := chromedp.Do(ctx, chromedp.Stop()); err != nil {
			return found{}, err
		}
	}
	all, err := chromedp.Run(ctx, chromedp.Evaluate[found](audit+".structure()"))
	if err != nil {
		return all, err
	}
	tree, err := chromedp.Call(ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		return all, err
	}
	all.Problems = append(all.Problems, readerProblems(tree.Nodes)...)
	if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Tab)); err != nil { // from here on the keyboard moves the focus
		return all, err
	}
	for _, v := range Views() {
		if err := v.setView(ctx); err != nil {
			return all, err
		}
		f, err := chromedp.Run(ctx, chromedp.Evaluate[found](audit+".look()"))
		if err != nil {
			return all, err
		}
		for _, problem := range f.Problems {
			all.Problems = append(all.Problems, fmt.Sprintf("at %d px, %s: %s", v.Width, v.Theme, problem))
		}
	}
	return all, Views()[0].setView(ctx)
}

// height is that of the window, in CSS pixels.
const height = 900

func (v View) setView(ctx context.Context) error {
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.Theme}},
	})
	if err != nil {
		return err
	}
	return chromedp.Do(ctx, chromedp.EmulateViewport(int64(v.Width), height))
}
