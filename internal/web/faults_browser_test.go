// SPDX-License-Identifier: Apache-2.0

//go:build browser

package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/webtest"
	"github.com/seed-141914ff/okara/statebackend"
)

// fault is what a page once did wrong.
type fault struct {
	what, caller, path string
	shows, lacks       []string // in the text of the page, the first in this order
	script, is         string   // what it evaluates to
}

const (
	upgrade = "modules/net/upgrade/aws"
	article = `document.querySelector("article.markdown")`
)

// faultsOfCatalog are those of the catalog, its search and its texts.
func faultsOfCatalog() []fault {
	list := func(texts ...string) []string { return texts }
	return []fault{
		{what: "search: words split", path: "search?q=table_association", shows: list("net/upgrade/aws"), lacks: list("Nothing found", "[^1]", ":rocket:")},
		{what: "search: a submodule's resource, and why", path: "search?q=aws_route_table_association", shows: list("1 found", "net/upgrade/aws", "Resource aws_route_table_association")},
		{what: "search: title of a README", path: "search?q=upgrade+of", shows: list("net/upgrade/aws")},
		{what: "search: description of an input", path: "search?q=announce", shows: list("net/upgrade/aws", "description of an input")},
		{what: "search: a page of documentation is a result", path: "search?q=dns_record", shows: list("dns_record", "acme/dns")},
		{what: "search: plural", path: "search?q=Upgrades", shows: list("net/upgrade/aws")},
		{what: "search: two letters exchanged", path: "search?q=vcp", shows: list("Did you mean", "net/vpc/aws")},
		{what: "search: a source with its host", path: "search?q=okara.example.com/net/upgrade/aws", shows: list("1 found", "net/upgrade/aws")},
		{what: "search: a version", path: "search?q=network+aws+1.9.0", shows: list("net/network/aws", "1.9.0"), lacks: list("net/network/aws module\n\n2.3.1"), script: `document.querySelector(".items a").getAttribute("href")`, is: "./modules/net/network/aws/1.9.0"},
		{what: "search: a version that it lacks", path: "search?q=net/upgrade/aws@6.7.0", shows: list("net/upgrade/aws", "It has no version 6.7.0", "6.6.0")},
		{what: "README: rendered, with all that GitHub knows", path: upgrade, lacks: list("[!WARNING]", ":rocket:", "[^1]", "as it was written"),
			shows: list("Warning\n", "Read this first.", "It is fast.", "In the middle", "Mermaid diagram, as text", "okara.example.com/net/upgrade/aws", "on this server", "Of all networks.", "examples/complete")},
		{what: "README: align", path: upgrade, script: `getComputedStyle([...document.querySelectorAll("article h3")].find((e) => e.textContent.includes("middle"))).textAlign`, is: "center"},
		{what: "README: anchors, lines and examples", path: upgrade, script: `[...` + article + `.querySelectorAll("a")].filter((a) => /its|all of/.test(a.textContent)).map((a) => new URL(a.href).pathname.split("6.6.0").pop() + new URL(a.href).hash + (a.hash && a.pathname == location.pathname && !document.getElementById(a.hash.slice(1)) ? " is nowhere" : "")).join(" ")`, is: "/ui/modules/net/upgrade/aws#md-input_cidr /files/main.tf#L3 /examples/examples/complete"},
		{what: "README: images of the package", path: upgrade, script: article + `.querySelector("img").naturalWidth`, is: "1"},
		{what: "a title of its own", path: upgrade + "/6.6.0/inputs", script: `document.title.includes("net/upgrade/aws") && document.title != "net/upgrade/aws · okara"`, is: "true"},
		{what: "a link shows what it leads to", path: upgrade, script: `document.querySelector('meta[property="og:title"]').content.includes("net/upgrade/aws")`, is: "true"},
		{what: "a banner on old versions", path: upgrade + "/5.21.0", shows: list("Version 6.6.0 is newer", "What changed", "~> 5.21")},
		{what: "a star", path: upgrade, shows: list("Star")},
		{what: "provider: source first, docs before packages", path: "providers/acme/dns", shows: list("required_providers", "Docs", "Platforms", "Overview"), lacks: list("zh:")},
		{what: "provider: the menu is at this page", path: "providers/acme/dns/1.2.3/docs/resources/record", shows: list("dns_record"), script: `(() => { const here = document.querySelector('nav[aria-label="Documentation"] a[aria-current]'); return here.textContent + " " + here.checkVisibility() })()`, is: "dns_record true"},
		{what: "provider: a page has its title", path: "providers/acme/dns/1.2.3/docs/resources/record", script: `document.title.startsWith("dns_record")`, is: "true"},
		{what: "provider: packages and hashes fit", path: "providers/acme/dns/1.2.3/platforms", shows: list("darwin_arm64", "linux_amd64")},
		{what: "compare: three groups, the worst first", path: upgrade + "/compare?from=5.21.0&to=6.6.0", lacks: list("none of which breaks"),
			shows: list("break callers", "Breaks callers", ">= 5.79 → hashicorp/aws >= 6.28", "modules/endpoints", "gone", "May break callers", "a major version", "availability_zones", "1 validation", "New, or no effect", "modules/routes", "tags")},
		{what: "inputs: types stay whole", path: upgrade + "/6.6.0/inputs", shows: list("availability_zones", "optional(string, \"anywhere\")")},
		{what: "inputs: all on one page, with anchors", path: "modules/net/large/aws/1.0.0/inputs", script: `document.querySelectorAll('tr[id^="input_"]').length + " " + !!document.querySelector("a[href='#input_input_299']")`, is: "301 true"},
		{what: "inputs: a filter", path: "modules/net/large/aws/1.0.0/inputs?q=_299", shows: list("1 of 301 inputs", "input_299"), lacks: list("input_298")},
		{what: "dependencies: a call leads to its submodule, a graph in both directions", path: upgrade + "/6.6.0/dependencies", shows: list("./modules/routes", "Used by"), script: `document.querySelectorAll('a[href$="submodules/modules/routes"]').length + " " + !!document.querySelector("main svg path")`, is: "2 true"},
		{what: "versions: dates on one line", path: "modules/net/network/aws/versions", shows: list("2.3.1", "Nov 2026")},
		{what: "a badge", path: upgrade + "/6.6.0/usage", shows: list("/ui/modules/net/upgrade/aws/badge.svg")},
		{what: "an identifier of a host with a port", path: "me", lacks: list("TF_TOKEN_127_0_0_1:")},
	}
}

// faultsOfWork are those of states, approvals and home.
func faultsOfWork(planned string) []fault {
	list := func(texts ...string) []string { return texts }
	return []fault{
		{what: "home: what needs one comes first", caller: publisher, path: "", shows: list("Needs your approval", "load test", "Modules")},
		{what: "home: own instances before templates and catalog", caller: reader, path: "", shows: list("Your instances", "payments network", "Launch", "PostgreSQL", "Modules")},
		{what: "approvals: who wants what, for how long and how much", caller: publisher, path: "approvals", lacks: list("asked for by", "Look …"),
			shows: list("wants to", "load test", "check failed", "Kubernetes cluster", "EUR an hour", "+1~1−21 imported1 forgotten", "Check failed", "the site answers 503", "Forgets, without destroying", "aws_kms_key.main", "Imports", "aws_s3_bucket.logs", "Approve …", "Reject …", "Details")},
		{what: "approval: no values of before on a first launch", caller: publisher, path: planned + "/approve", lacks: list("Now: none"), shows: list("Check failed", "the site answers 503", "Forgets", "aws_kms_key.main", "+1~1−21 imported1 forgotten", "aws_db_instance.main", "outputs", "Comment", "Approve", "Reject …")},
		{what: "approval: a comment is an area", caller: publisher, path: planned + "/approve", script: `[...document.querySelectorAll("textarea")].some((e) => e.labels[0].textContent.startsWith("Comment"))`, is: "true"},
		{what: "plan: as text", caller: publisher, path: planned + "/approve?as=text", shows: list("will perform the following actions")},
		{what: "instances: words", caller: reader, path: "instances", lacks: list("what lives", "Not done", "at work"), shows: list("payments network", "ready")},
		{what: "state: who wrote it, and the run", path: "states/people/default/history", lacks: list("hbde2acjc2", "127.0.0.1"), shows: list("anna@example.com", "apply"), script: `document.querySelector("td[data-th=By] a").getAttribute("href")`, is: "https://okara.example.com/ui/runs/people/default/hbde2acjc2.2"},
		{what: "state: what differs", path: "states/shop/default/diff?from=1&to=2", shows: list("+0~1−1", "− output.subnets", "~ aws_db_instance.main", `"db.small"`)},
		{what: "state: runs", path: "runs/shop/default", lacks: list("make or change", "asked for by")},
		{what: "audit: rows fit", path: "audit", shows: list("publish module")},
	}
}

// TestBrowserFaults looks at what was wrong once, wide and on a phone: each page says what it has
// to, and nothing is cut off, broken inside a word or wider than the window.
func TestBrowserFaults(t *testing.T) {
	b := webtest.New(t)
	catalog, w := newGallery(t), newBusy(t)
	w.written(t)
	rows := map[string][]fault{catalog.URL: faultsOfCatalog(), w.URL: faultsOfWork("instances/" + w.ids["planned"])}
	for _, width := range []int{1440, 375} {
		tabs := map[string]*webtest.Tab{}
		for url, all := range rows {
			for _, f := range all {
				if f.caller == "" {
					f.caller = admin
				}
				p := tabs[url+f.caller]
				if p == nil {
					p = b.Tab(t, url+"/ui/me", webtest.Look{Width: width, Theme: "light", Script: true, Token: callerToken(f.caller)})
					tabs[url+f.caller] = p
				}
				p.Go(url + "/ui/" + f.path)
				what := fmt.Sprintf("%s, at %d (%s)", f.what, width, f.path)
				text := p.Text()
				for rest, i := text, 0; i < len(f.shows); i++ {
					_, after, ok := strings.Cut(rest, f.shows[i])
					if !ok {
						t.Errorf("%s: no %q, or too early, in\n%s", what, f.shows[i], text)
						break
					}
					rest = after
				}
				for _, not := range f.lacks {
					if strings.Contains(text, not) {
						t.Errorf("%s: it says %q", what, not)
					}
				}
				if f.script != "" {
					must.Equal(t, what, p.Value(f.script), f.is)
				}
				p.Examine()
			}
		}
	}
}

// written writes a state as a run of this server does.
func (w *whole) written(t *testing.T) {
	t.Helper()
	info := statebackend.NewLockInfo("OperationTypeApply", "1.10.0")
	info.Who, info.Info = "anna@example.com", "run of okara https://okara.example.com/ui/runs/people/default/hbde2acjc2.2"
	l := must.Get(w.store(t, "people").Lock(t.Context(), "default", info))(t)
	must.Get(l.Put(t.Context(), []byte(shopState(1, "db.small"))))(t)
	must.Succeed(t, l.Unlock(t.Context()))
}
