// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// inside is a server that tenants must not reach.
type inside struct {
	host string

	mu   sync.Mutex
	hits []string
}

func newInside(t *testing.T) *inside {
	t.Helper()
	in := &inside{}
	hit := func(what string) {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.hits = append(in.hits, what)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hit(r.Method + " " + r.URL.Path) }))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			hit("a connection")
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	in.host = strings.TrimPrefix(srv.URL, "http://")
	return in
}

func (in *inside) untouched(t *testing.T) {
	t.Helper()
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.hits) > 0 {
		t.Errorf("reached inside: %v", in.hits)
	}
}

// newTenants returns a reader for tenants; allowed lists loopback hosts.
func newTenants(t *testing.T, o supply.TenantsOptions, allowed ...string) *supply.Tenants {
	t.Helper()
	o.Guard = upstream.NewGuard(allowed)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext, transport.Proxy = o.Guard.Dial, nil
	o.Transport = transport
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(func() { upstream.InstallGit(http.DefaultClient) })
	return supply.NewTenants(o)
}

func nobody(addr.Item) bool { return false }

// sync runs one module of a tenant, and returns the error that stopped it.
func (r *runner) sync(from supply.Origins, source string) error {
	r.t.Helper()
	e, err := supply.ModuleSpec{Address: "net/vpc/aws", Source: source}.Entry("Module net/vpc")
	if err != nil {
		return err
	}
	s := supply.NewSyncer(r.depot, supply.SyncOptions{
		Set: &supply.Set{Modules: []supply.ModuleEntry{e}}, Own: &supply.OwnRecord{Owner: "a"},
		Origins: func(string) (supply.Origins, error) { return from, nil },
	})
	p, err := s.Plan(r.t.Context())
	if err != nil {
		return err
	}
	results, err := s.Apply(r.t.Context(), p, nil)
	for _, res := range results {
		err = errors.Join(err, res.Err())
	}
	return err
}

// TestTenantSources names what a tenant must not read, in each form.
func TestTenantSources(t *testing.T) {
	in, o := newInside(t), newOrigin(t, "v1.0.0")
	lead := newLead(t, in.host)
	r := newRunner(t)
	tenants := newTenants(t, supply.TenantsOptions{Registry: r.host, Layout: r.depot.Options().Layout}, lead.host)
	from := must.Get(tenants.Origins(t.Context(), supply.TenantSecret{}, nobody))(t)
	for _, source := range []string{
		"git::file://" + o.dir, o.dir, "../vpc", "git::" + o.dir, "file://" + o.dir,
		"git::ext::sh -c id", "ext::sh -c id", "git::-u./x:y", "git::ssh://-oProxyCommand=id/x.git", "git::https://-u@" + in.host + "/x.git",
		"git::http://example.com/x.git", "git::git://example.com/x.git",
		"git::ssh://git@example.com/x.git", "git@example.com:x/y.git",
		"git::https://" + in.host + "/x.git", "git::http://" + in.host + "/x.git", "git::https://169.254.169.254/x.git",
		"git::https://2852039166/x.git", "git::https://[::ffff:127.0.0.1]/x.git", "git::https://localhost:1/x.git", "git::https://10.0.0.1/x.git",
		in.host + "/a/b/c", "169.254.169.254/a/b/c", "oci://" + in.host + "/a/b", "oci://169.254.169.254/a/b",
		"git::http://" + lead.host + "/redirect/x.git",
		lead.host + "/location/http/aws", lead.host + "/location/git/aws", lead.host + "/location/file/aws", lead.host + "/location/oci/aws",
		lead.host + "/location/ssh/aws", lead.host + "/location/redirect/aws", lead.host + "/location/plain/aws",
		"oci://" + r.host + "/p/modules/other/vpc/aws", "oci://" + r.host + "/p/catalog", "oci://" + r.host + "/elsewhere",
		"git::http://" + r.host + "/x.git", r.host + "/other/vpc/aws",
	} {
		t.Run(source, func(t *testing.T) {
			r := &runner{t: t, host: r.host, count: r.count, depot: r.depot, client: r.client}
			err := r.sync(from, source)
			if !errors.Is(err, oci.ErrDenied) && !errors.Is(err, oci.ErrUnsupported) {
				t.Errorf("got %v", err)
			}
			in.untouched(t)
			if lead.reached() {
				t.Error("a place that a redirect named was asked")
			}
		})
	}
}

// lead is a module registry that refers to other locations.
type lead struct {
	host string

	mu   sync.Mutex
	deep bool
}

func (l *lead) reached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deep
}

func newLead(t *testing.T, to string) *lead {
	t.Helper()
	l := &lead{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		switch {
		case r.URL.Path == "/.well-known/terraform.json":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"modules.v1": "/v1/modules/"}`)
		case part[0] == "redirect":
			http.Redirect(w, r, "http://"+to+"/info/refs?service=git-upload-pack", http.StatusFound)
		case part[len(part)-1] == "versions":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"modules": [{"versions": [{"version": "1.0.0"}]}]}`)
		case part[len(part)-1] == "download":
			w.Header().Set("X-Terraform-Get", map[string]string{
				"http": "http://" + to + "/a.zip", "git": "git::https://" + to + "/x.git", "file": "git::file:///etc/x.git", "oci": "oci://" + to + "/x",
				"ssh": "git::ssh://git@example.com/x.git", "redirect": "/redirect/a.zip", "plain": "http://example.com/a.zip",
			}[part[3]])
			w.WriteHeader(http.StatusNoContent)
		default:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.deep = true
		}
	}))
	t.Cleanup(srv.Close)
	l.host = strings.TrimPrefix(srv.URL, "http://")
	return l
}

// TestTenantProviders is TestTenantSources for the sources of providers.
func TestTenantProviders(t *testing.T) {
	in := newInside(t)
	r := newRunner(t)
	tenants := newTenants(t, supply.TenantsOptions{Registry: r.host, Layout: r.depot.Options().Layout, FrontEnds: []string{"okara.test"}})
	from := must.Get(tenants.Origins(t.Context(), supply.TenantSecret{}, nobody))(t)
	public := depottest.UpstreamDNS()
	here, own := public, public
	here.Hostname, own.Hostname = in.host, "okara.test"
	for _, test := range []struct {
		origin string
		p      addr.Provider
	}{
		{t.TempDir(), public},
		{".", public},
		{"http://example.com/mirror/", public},
		{"file:///etc/", public},
		{"https://" + in.host + "/mirror/", public},
		{"https://169.254.169.254/mirror/", public},
		{in.host, public},
		{"", here},
		{"oci://" + in.host + "/p", public},
		{"okara.test", public},
		{"", own},
		{"https://okara.test/mirror/", public},
		{"oci://" + r.host + "/p", public},
		{"oci://" + r.host + "/other", public},
	} {
		t.Run(test.origin+" "+test.p.Hostname, func(t *testing.T) {
			src, err := from.Provider(test.origin, test.p)
			if err == nil {
				_, err = src.Versions(t.Context(), test.p)
			}
			if _, none := errors.AsType[*supply.SourceError](err); !none && !errors.Is(err, oci.ErrDenied) {
				t.Errorf("got %v", err)
			}
			in.untouched(t)
		})
	}
}

// TestTenantReadsItsOwn: own addresses, and hosts that were allowed.
func TestTenantReadsItsOwn(t *testing.T) {
	o := newOrigin(t, "v1.0.0")
	r := newRunner(t)
	for _, name := range []string{"mine/vpc/aws", "theirs/vpc/aws"} {
		must.Get(r.depot.PublishModule(t.Context(), depottest.NewModule("# x\n"), depottest.MustModule(t, name, "1.0.0"), depot.ModuleOptions{}))(t)
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(o.url, "git::http://"), "/")
	tenants := newTenants(t, supply.TenantsOptions{Registry: r.host, Layout: r.depot.Options().Layout}, host)
	mine := func(it addr.Item) bool { return it.Kind == addr.KindModule && it.Module.Namespace == "mine" }
	from := must.Get(tenants.Origins(t.Context(), supply.TenantSecret{}, mine))(t)
	if err := r.sync(from, "oci://"+r.host+"/p/modules/theirs/vpc/aws"); !errors.Is(err, oci.ErrDenied) {
		t.Errorf("another namespace's module: %v", err)
	}
	if err := r.sync(from, "oci://"+r.host+"/p/modules/mine/vpc/aws"); err != nil {
		t.Errorf("the namespace's own module: %v", err)
	}
	r.want(r.versions(), "1.0.0")
	other := newRunner(t)
	if err := other.sync(from, o.url); err != nil {
		t.Errorf("an allowed origin: %v", err)
	}
	other.want(other.versions(), "1.0.0")
}

// TestTenantSecretStaysWithItsHosts: a token goes to its hosts only.
func TestTenantSecretStaysWithItsHosts(t *testing.T) {
	var mu sync.Mutex
	seen := map[string][]string{}
	server := func(name string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if a := r.Header.Get("Authorization"); a != "" {
				seen[name] = append(seen[name], a)
			}
			w.WriteHeader(http.StatusNotFound)
		}))
		t.Cleanup(srv.Close)
		return strings.TrimPrefix(srv.URL, "http://")
	}
	agreed, other := server("agreed"), server("other")
	r := newRunner(t)
	from := must.Get(newTenants(t, supply.TenantsOptions{Registry: r.host, Layout: r.depot.Options().Layout}, agreed, other).
		Origins(t.Context(), supply.TenantSecret{Hosts: []string{agreed, "github.com/acme"}, Token: "secret"}, nobody))(t)
	for _, host := range []string{agreed, other} {
		if err := r.sync(from, host+"/a/b/c"); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if len(seen["other"]) > 0 || len(seen["agreed"]) != 1 || seen["agreed"][0] != "Bearer secret" {
		t.Errorf("the token went to %v", seen)
	}
	for key, want := range map[string]string{"github.com/acme": "secret", "github.com/other": "", "github.com": "", other: "", strings.ToUpper(agreed): "secret"} {
		must.Equal(t, key+": gets", from.Client.Token(key), want)
	}
}
