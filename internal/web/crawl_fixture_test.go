// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"bytes"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/pages"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/internal/webtest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// whole is a server with all pages. Names with alpha are the reader's, beta the publisher's, gamma
// the admin's.
type whole struct {
	stateSite
	host string
	api  *portaltest.Server
	ids  map[string]string // of instances, by name
}

// owner launches instances in this fixture, and opens no pages.
const owner = "owner"

func newWhole(t *testing.T) *whole {
	t.Helper()
	w := newWholeOf(t, `
template "open/alphatemplate" {
  module { address = "net/vpc/aws" }
  per_owner = 3
}
template "shut/gammatemplate" {
  module { address = "net/vpc/aws" }
  per_owner = 3
}
`, map[string][]string{
		reader:    {"read:module:open/**", "read:state:alphastate", "read:instance:open/*"},
		publisher: {"publish:module:mid/**"},
		wrong:     {"read:module:elsewhere/**", "read:provider:elsewhere/**", "read:state:elsewhere", "use:instance:elsewhere/*"},
		owner:     {"use:instance:*/*"},
	})
	w.findings = []web.Finding{{About: "gammafinding", State: "well"}}
	return w
}

// newWholeOf has the given templates, and callers beside the admin.
func newWholeOf(t *testing.T, templates string, given map[string][]string) *whole {
	t.Helper()
	w := &whole{host: ocitest.New(t, ocitest.Quirks{})}
	w.layout = addr.Layout{Prefix: "acme"}
	w.client = mustClient(t, w.host, oci.Options{PlainHTTP: true})
	w.depot = depot.New(depot.Options{Client: w.client, Layout: w.layout})
	w.api = portaltest.NewServer(t, func(o *portal.Options, p *access.Policy) {
		o.Catalog = portaltest.NewCatalog(t, templates)
		for name, scopes := range given {
			p.Tokens = append(p.Tokens, tokenOf(t, name, webtest.Rule(t, name, scopes...).Allow))
		}
		p.Tokens = append(p.Tokens, tokenOf(t, admin, rights.AnonymousAll()))
	})
	w.now = w.api.Store.Now()
	queue := must.Get(w.client.Repo(w.layout.QueueRepo()))(t)
	w.auditLog = auditlog.New(auditlog.Options{Repo: queue})
	w.records = slog.New(w.auditLog.Handler(slog.DiscardHandler))
	return w
}

func tokenOf(t *testing.T, caller string, scopes []rights.Scope) statictoken.Token {
	t.Helper()
	id, hash := must.GetBoth(statictoken.Hash(callerToken(caller)))(t)
	return statictoken.Token{ID: id, Hash: hash, Scopes: scopes}
}

// start serves the pages again, by a replica with empty caches.
func (w *whole) start(t *testing.T) {
	t.Helper()
	keys := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	client := mustClient(t, w.host, oci.Options{PlainHTTP: true})
	protocols := must.Get(registry.New(registry.Options{Kit: w.api.Kit, Keys: keys, Client: client, Layout: w.layout}))(t)
	states := must.Get(states.New(states.Options{Client: client, Layout: w.layout}))(t)
	runs := pages.NewRuns(pages.RunsOptions{Kit: w.api.Kit, Runs: w.api, States: states, Now: w.api.Store.Now, Pace: service.Pace{Poll: time.Millisecond}})
	pages := must.Get(web.New(web.Options{
		Kit: w.api.Kit, Catalog: protocols.Catalog(), Finder: catalog.NewFinder(protocols.Catalog(), true), Downloads: protocols.Downloads(), Archives: protocols,
		States: states, Doctor: w, Audit: w.auditLog, Depot: &w.depots, Instances: pages.New(pages.Options{API: w.api.API, Mine: w.api.API, Now: w.api.Store.Now}), Runs: runs, Hostname: "okara.example.com", Version: "1.2.3", Now: w.api.Store.Now,
	}))(t)
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.Handle("/api/v1/", w.api.API)
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Close)
}

// launch launches an instance and waits until it is ready.
func (w *whole) launch(t *testing.T, template, name string) {
	t.Helper()
	d := &portaltest.Pages{Server: w.api, Tokens: map[string]string{owner: callerToken(owner)}}
	d.Ready(t, d.Launch(t, owner, `{"template":"`+template+`","name":"`+name+`"}`))
}

// open publishes items that callers other than the admin may see.
func (w *whole) open(t *testing.T) {
	t.Helper()
	w.module(t, "open/alphamodule/aws", "1.0.0", map[string]string{"main.tf": "variable \"alphainput\" {}\nresource \"aws_vpc\" \"x\" {}\n", "README.md": "# Alpha\n"})
	w.module(t, "open/alphamodule/aws", "1.1.0", map[string]string{"main.tf": "variable \"alphainput\" {}\n"})
	w.module(t, "mid/betamodule/aws", "1.0.0", map[string]string{"main.tf": "variable \"betainput\" {}\n"})
	w.put(t, "alphastate", "default", shopState(1, "db.small"), shopState(2, "db.large"))
	w.runs(t, "alphastate", "default")
	w.launch(t, "open/alphatemplate", "alphainstance")
}

// shut adds items that only the admin may see, and that use items that others see.
func (w *whole) shut(t *testing.T) {
	t.Helper()
	w.module(t, "shut/gammamodule/aws", "1.0.0", map[string]string{
		"main.tf":   "variable \"gammainput\" {}\nresource \"aws_vpc\" \"x\" {}\nmodule \"m\" {\n  source = \"okara.example.com/open/alphamodule/aws\"\n  version = \"1.0.0\"\n}\n",
		"README.md": "# Gamma\n\ngammareadme\n",
	})
	w.module(t, "shut/gammaother/aws", "1.0.0", map[string]string{"main.tf": ""})
	w.provider(t, "1.2.3")
	w.put(t, "gammastate", "default", strings.ReplaceAll(shopState(1, "db.small"), "url", "gammaoutput"))
	w.launch(t, "shut/gammatemplate", "gammainstance")
	w.runs(t, "gammastate", "default")
	w.records.Info("change", "action", "publish", "kind", "module", "address", "gammaaudit", "decision", "allowed", "mode", "static", "subject", "anna", "status", 201)
	long := strings.Repeat("gammalong", 33) // as wide as a name may be
	w.records.Info("change", "action", "write", "kind", "state", "address", long, "version", long, "digest", "sha256:"+strings.Repeat("0", 64), "lock_id", long, "detail", long,
		"decision", "allowed", "mode", "oidc", "issuer", "https://"+long, "subject", long, "user_agent", long, "status", 200)
}

// tags returns the tags of the whole registry.
func (w *whole) tags(t *testing.T) (all []string) {
	t.Helper()
	repositories := must.Get(w.client.Repositories(t.Context()))(t)
	for _, name := range repositories {
		r := must.Get(w.client.Repo(name))(t)
		for tag, err := range r.Tags(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			m := must.Get(r.Resolve(t.Context(), tag))(t)
			all = append(all, name+":"+tag+"@"+m.Digest.String())
		}
	}
	return all
}

// unchanged checks that the registry and the ledger have not changed.
func (w *whole) unchanged(t *testing.T, tags []string, commits int) {
	t.Helper()
	w.auditLog.Finish(t.Context())                                                                           // writes pending changes, if any
	after := slices.DeleteFunc(w.tags(t), func(tag string) bool { return strings.Contains(tag, ":audit-") }) // without the records of the fixture
	if !slices.Equal(after, tags) || w.api.Store.Commits() != commits {
		t.Errorf("looking changed something: tags were\n%v\nand are\n%v", tags, after)
	}
}

// visitor is a caller with a session, or an anonymous one.
type visitor struct {
	*http.Client
	base string
}

// login gives a caller a session through the login page.
func (w *whole) login(t *testing.T, caller string) *visitor {
	t.Helper()
	jar := must.Get(cookiejar.New(nil))(t)
	v := &visitor{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, w.URL}
	if caller == nobody {
		return v
	}
	if resp, page := visit(t, v.Client, w.URL+"/ui/login", url.Values{"token": {callerToken(caller)}}.Encode()); resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) == 0 {
		t.Fatalf("%s logs in: %s\n%s", caller, resp.Status, page)
	}
	return v
}

type answer struct {
	status int
	to     string // of a redirect
	body   string // without parts that differ each time
}

// changing matches the parts that may differ between two equal answers.
var changing = regexp.MustCompile(`<time[^>]*>[^<]*</time>|name="key" value="[^"]*"|archives/[^/"]+/|Request [^<]*(?:<code>[^<]*</code>)?`)

func (v *visitor) get(t *testing.T, path string) answer {
	t.Helper()
	resp := must.Get(v.Get(v.base + path))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return answer{resp.StatusCode, resp.Header.Get("Location"), changing.ReplaceAllString(strings.ReplaceAll(string(b), v.base, ""), "")}
}

var hrefs = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)

// crawl follows every link from the first page and "Me", and returns answers by path.
func (v *visitor) crawl(t *testing.T) map[string]answer {
	t.Helper()
	const most = 700
	pages := map[string]answer{}
	queue := []string{"/ui/", "/ui/me", "/ui/search?q=aws"}
	for len(queue) > 0 && len(pages) < most {
		at := queue[0]
		queue = queue[1:]
		if _, seen := pages[at]; seen {
			continue
		}
		a := v.get(t, at)
		pages[at] = a
		base := must.Get(url.Parse(at))(t)
		for _, m := range hrefs.FindAllStringSubmatch(a.body, -1) {
			u, err := base.Parse(html.UnescapeString(m[1]))
			if err != nil || u.Host != "" || !strings.HasPrefix(u.Path, "/ui/") || strings.HasPrefix(u.Path, "/ui/assets/") || isManual(u.Path) || isForm(u.Path) {
				continue
			}
			queue = append(queue, u.RequestURI())
		}
	}
	if len(pages) == most {
		t.Errorf("more than %d pages", most)
	}
	return pages
}

// isManual reports whether a path is a page of okara's own documentation, which TestManual crawls.
func isManual(path string) bool { return strings.HasPrefix(path, "/ui/docs/") }

// isForm reports whether a path accepts only forms and has no page.
func isForm(path string) bool {
	return path == "/ui/theme" || path == "/ui/star" || path == "/ui/logout" || strings.HasSuffix(path, "/pause") || strings.HasSuffix(path, "/resume")
}
