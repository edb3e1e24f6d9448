// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// probes returns what the caller may not see, and what could reveal it.
func probes() []string {
	return []string{
		"modules/shut", "modules/shut/gammamodule/aws", "modules/shut/gammamodule/aws/1.0.0", "modules/shut/gammamodule/aws/1.0.0/inputs", "modules/shut/gammamodule/aws/1.0.0/security",
		"modules/shut/gammamodule/aws/1.0.0/files/main.tf", "modules/shut/gammamodule/aws/versions", "modules/shut/gammamodule/aws/downloads", "modules/shut/gammamodule/aws/compare",
		"providers/acme/dns", "providers/acme/dns/1.2.3/docs/resources/record",
		"states/gammastate", "states/gammastate/default", "states/gammastate/default/1", "states/gammastate/default/history", "states/gammastate/default/1/resources",
		"states/gammastate/default/1/reveal?address=aws_db_instance.main&path=password", "runs", "runs/gammastate/default", "templates/shut/gammatemplate", "run/shut/gammatemplate",
		"admin/instances", "admin/templates", "approvals", "instances?owner=", "doctor", "audit", "audit?what=decisions",
		"search", "search?q=aws", "search?q=gammamodule", "search?q=gammamodul", "search?q=gammainput", "search?q=aws_vpc", "search?q=gammareadme", "search?q=dns", "search?kind=provider",
		"search?namespace=shut", "search?sort=newest", "search?sort=downloads", "search?kind=module&q=aws", "search?kind=template", "modules/open/alphamodule/aws/1.1.0/dependencies",
	}
}

var (
	names   = map[string]*regexp.Regexp{reader: regexp.MustCompile(`alpha[a-z]+`), publisher: regexp.MustCompile(`beta[a-z]+`), admin: regexp.MustCompile(`gamma[a-z]+|acme/dns`)}
	secrets = regexp.MustCompile(`PLANTED-[a-z-]+`)
)

// unreadable returns a name in an answer that the caller may not see.
func (a answer) unreadable(caller, path string) string {
	for whose, of := range names {
		if caller == whose || caller == admin {
			continue
		}
		for _, name := range of.FindAllString(a.body+" "+a.to, -1) {
			if !strings.Contains(path, name) {
				return name
			}
		}
	}
	return ""
}

// TestCrawl follows every link as five callers: pages are equal, byte by byte, with and without
// what a caller may not see; links work, the admin's are refused, no secret of a state is shown, no
// tag changed.
//
// Shows: pages 4 | every page as five kinds of callers: status, and no name of objects that they
// may not see
// Shows: page-mistakes 8
// Shows: page-mistakes 9
// Shows: page-mistakes 12 | numbers and names of objects that the caller may not see | several
func TestCrawl(t *testing.T) {
	w := newWhole(t)
	w.open(t)
	callers := []string{nobody, reader, publisher, wrong}
	before := map[string]map[string]answer{}
	w.start(t)
	for _, caller := range callers {
		before[caller] = w.look(t, caller)
	}
	w.shut(t)
	tags, commits := w.tags(t), w.api.Store.Commits()
	w.start(t)
	all := w.look(t, admin)
	for _, name := range []string{"alphamodule", "betamodule", "gammamodule", "acme/dns", "alphastate", "gammastate", "alphainstance", "gammainstance", "gammatemplate", "gammafinding", "gammaaudit", "gammaoutput"} {
		if !slices.ContainsFunc(paths(all), func(path string) bool { return strings.Contains(all[path].body, name) }) {
			t.Errorf("the admin does not see %s", name)
		}
	}
	least := map[string]int{nobody: 2, reader: 30, publisher: 15, wrong: 5}
	for _, caller := range callers {
		after := w.look(t, caller)
		own := 0
		for _, path := range paths(after) {
			a, was := after[path], before[caller][path]
			if a != was {
				t.Errorf("%q asks for %s and hears that something else is there: %d and %d\n%s\n%s", caller, path, was.status, a.status, was.body, a.body)
			}
			if name := a.unreadable(caller, path); name != "" {
				t.Errorf("%q asks for %s and is told of %s", caller, path, name)
			}
			if a.status == http.StatusOK {
				own++
			}
		}
		if len(after) != len(before[caller]) || own < least[caller] {
			t.Errorf("%q has %d pages, %d before, %d that are not refused", caller, len(after), len(before[caller]), own)
		}
		v := w.login(t, caller)
		for _, path := range paths(all) {
			if _, own := after[path]; own {
				continue
			}
			a := v.get(t, path)
			if name := a.unreadable(caller, path); name != "" {
				t.Errorf("%q asks for the admin's %s and is told of %s", caller, path, name)
			}
			// A list filtered by a name answers every caller, with the items that it may
			// see.
			list := strings.HasPrefix(path, "/ui/search?") || strings.HasPrefix(path, "/ui/instances?")
			if about := names[admin].MatchString(path) && !list; about && (a.status < 300 || a.status == http.StatusSeeOther && caller != nobody) {
				t.Errorf("%q asks for the admin's %s: %d", caller, path, a.status)
			}
			if caller == nobody && path != "/ui/login" && (a.status != http.StatusSeeOther || !strings.Contains(a.to, "login?return=")) && a.status != http.StatusNotFound {
				t.Errorf("nobody asks for %s: %d to %q", path, a.status, a.to)
			}
		}
	}
	w.unchanged(t, tags, commits)
}

// look returns every page found, and the probes, after two crawls.
func (w *whole) look(t *testing.T, caller string) map[string]answer {
	t.Helper()
	v := w.login(t, caller)
	v.crawl(t)
	pages := v.crawl(t)
	for _, path := range paths(pages) {
		a := pages[path]
		if a.status != http.StatusOK && (caller != nobody || a.status != http.StatusSeeOther) {
			t.Errorf("%q follows a link to %s: %d\n%s", caller, path, a.status, a.body)
		}
		if secret := secrets.FindString(a.body); secret != "" && !strings.Contains(path, "/files/") {
			t.Errorf("%q reads %s on %s", caller, secret, path)
		}
	}
	for _, path := range probes() {
		pages["/ui/"+path] = v.get(t, "/ui/"+path)
	}
	return pages
}

func paths(pages map[string]answer) []string {
	all := make([]string, 0, len(pages))
	for path := range pages {
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}
