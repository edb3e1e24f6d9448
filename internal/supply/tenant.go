// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

const (
	tenantBytes = 1 << 30         // of one answer of a source, and of a tree
	tenantTime  = 5 * time.Minute // for one request to a source, with its answer
)

// TenantsOptions configures access to the sources of tenants.
type TenantsOptions struct {
	Guard     *upstream.Guard   // exempts the hosts that an administrator lists
	Transport http.RoundTripper // connects by Guard.Dial
	UserAgent string
	Registry  string      // HOST[:PORT] of the registry that okara fills
	Layout    addr.Layout // of that registry
	FrontEnds []string    // HOST[:PORT] of its front-ends
}

// Tenants reads the sources of untrusted tenants, over https, from OCI registries, or over ssh with
// a key; never files, internal addresses, or with an administrator's credential. A loopback host
// that the guard exempts may use http.
type Tenants struct {
	o       TenantsOptions
	own     []string     // HOST:PORT of the registry and its front-ends
	outside *http.Client // refuses own
	inside  *http.Client // allows own

	// Shared between runs, so that each requests only what has changed.
	lists  *upstream.Lists
	apps   *upstream.AppTokens
	probes *oci.Probes
}

// NewTenants returns a reader of tenants' sources. From then on each Git of this process sends its
// requests through it.
func NewTenants(o TenantsOptions) *Tenants {
	t := &Tenants{o: o, lists: upstream.NewLists(), apps: upstream.NewAppTokens(), probes: &oci.Probes{Dial: o.Guard.Dial}}
	for _, host := range append([]string{o.Registry}, o.FrontEnds...) {
		t.own = append(t.own, withPort(&url.URL{Scheme: "https", Host: host}))
	}
	o.Guard.Named(t.own...)
	t.outside = o.Guard.Client(tenantTransport{next: o.Transport, refused: t.own})
	t.inside = o.Guard.Client(tenantTransport{next: o.Transport})
	upstream.InstallGit(t.outside)
	return t
}

// TenantSecret is a tenant's credential: a token, an App, or a key for ssh.
type TenantSecret struct {
	Hosts    []string // HOST[:PORT] or HOST/OWNER that it may be sent to
	Token    string
	Username string        // for OCI registries, with Token as its password
	App      *upstream.App // GitHub App whose tokens are used
	SSH      *upstream.SSHKey
}

// tenant reads the sources of one entry.
type tenant struct {
	*Tenants
	secret TenantSecret
	may    func(addr.Item) bool
}

// Origins gives access to the sources of one entry. The secret is sent only to its hosts. may
// reports whether the entry's namespace may use an address of okara's own registry.
func (t *Tenants) Origins(ctx context.Context, s TenantSecret, may func(addr.Item) bool) (Origins, error) {
	if s.App != nil {
		s.App.HTTP = t.outside
		s.App.Tokens = t.apps
		token, err := s.App.Token(ctx)
		if err != nil {
			return Origins{}, err
		}
		s.Token = token
	}
	e := tenant{t, s, may}
	return Origins{
		Client: e.upstreamClient(t.outside),
		Git:    &upstream.Git{Token: e.hostToken, Guard: t.o.Guard, SSH: s.SSH, MaxBytes: tenantBytes, Timeout: tenantTime},
		GitHub: upstream.NewGitHub(t.conditionalClient(t.outside), nil, e.hostToken),
		Permit: e.permitLocation, Provider: e.providerSource, Open: e.openRepo, Registry: e.moduleRegistry,
	}, nil
}

// conditionalClient returns a client that sends conditional requests for known lists.
func (t *Tenants) conditionalClient(h *http.Client) *http.Client {
	out := *h
	out.Transport = t.lists.Transport(h.Transport)
	return &out
}

func (e tenant) upstreamClient(h *http.Client) *upstream.Client {
	return &upstream.Client{HTTP: h, Token: e.hostToken, UserAgent: e.o.UserAgent}
}

// hostToken implements [upstream.TokenFunc]; key is HOST or HOST/OWNER.
func (e tenant) hostToken(key string) string {
	if host, _, _ := strings.Cut(key, "/"); e.agreesToHost(host) || e.agreesToHost(key) {
		return e.secret.Token
	}
	return ""
}

func (e tenant) agreesToHost(host string) bool {
	return slices.ContainsFunc(e.secret.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

func deniedError(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, oci.ErrDenied)...)
}

// permitLocation decides whether the tree of a module may be read from a location.
func (e tenant) permitLocation(l upstream.Location) error {
	host := withPort(l.URL)
	switch {
	case l.Local || l.URL.Scheme == "file":
		return deniedError("a local path is not allowed as a source")
	case l.Kind == upstream.KindOCI:
		return nil // see openRepo
	case slices.Contains(e.own, host):
		return deniedError("%s is okara itself: use the address of the module", l.URL.Host)
	case l.URL.Scheme == "ssh" && e.secret.SSH == nil:
		return deniedError("a source over ssh requires a secret with a key and known hosts")
	case l.URL.Scheme == "ssh" && !e.agreesToHost(l.URL.Host) && !e.agreesToHost(l.URL.Hostname()):
		return deniedError("the secret does not allow use for %s", l.URL.Host)
	case l.URL.Scheme == "ssh":
		return nil
	}
	return requireHTTPS(l.URL)
}

// requireHTTPS requires https, except of loopback addresses, which the guard checks.
func requireHTTPS(u *url.URL) error {
	if u.Scheme != "https" && !netaddr.IsLoopback(u.Hostname()) {
		return deniedError("sources must use https, oci or ssh, not %s", u.Scheme)
	}
	return nil
}

// openRepo opens a repository of any registry, or one of okara's own that e may use.
func (e tenant) openRepo(reference string) (*oci.Repo, error) {
	host, name, _ := strings.Cut(reference, "/")
	h, err := e.toRegistry(host, func(own addr.Layout) bool {
		it, ok := own.Parse(name)
		return ok && e.may(it)
	})
	if err != nil {
		return nil, err
	}
	return oci.OpenRepo(reference, e.ociOptions(h))
}

// toRegistry returns the client for a registry; allowed decides about okara's own.
func (e tenant) toRegistry(host string, allowed func(addr.Layout) bool) (*http.Client, error) {
	address := withPort(&url.URL{Scheme: "https", Host: host})
	switch {
	case !slices.Contains(e.own, address):
		return e.outside, nil
	case address == e.own[0] && allowed(e.o.Layout):
		return e.inside, nil
	}
	return nil, deniedError("%s is okara itself, and the namespace may not use the address", host)
}

func (e tenant) ociOptions(h *http.Client) oci.Options {
	return oci.Options{
		Transport: h.Transport, UserAgent: e.o.UserAgent, Probes: e.probes,
		Credential: func(_ context.Context, host, _ string) (oci.Credential, error) {
			switch token := e.hostToken(host); {
			case token == "":
				return oci.Credential{}, nil
			case e.secret.Username != "":
				return oci.Credential{Username: e.secret.Username, Password: token}, nil
			default:
				return oci.Credential{RegistryToken: token}, nil
			}
		},
	}
}

func (e tenant) moduleRegistry(host string, m addr.Module) (*upstream.ModuleRegistry, error) {
	h, err := e.toFrontEnd(host, addr.Item{Kind: addr.KindModule, Module: m})
	if err != nil {
		return nil, err
	}
	return &upstream.ModuleRegistry{Client: e.upstreamClient(e.conditionalClient(h)), Host: host}, nil
}

// toFrontEnd returns the client for a host that serves an item by its address.
func (e tenant) toFrontEnd(host string, it addr.Item) (*http.Client, error) {
	switch {
	case strings.ContainsAny(host, `/\@ `) || strings.HasPrefix(host, "-") || host == "":
		return nil, deniedError("%q is not a host", host)
	case !slices.Contains(e.own, withPort(&url.URL{Scheme: "https", Host: host})):
		return e.outside, nil
	case !e.may(it):
		return nil, deniedError("%s is okara itself, and the namespace may not use the address", host)
	}
	return e.inside, nil
}

// providerSource returns a provider's source: its own registry, another, a network mirror, or OCI.
func (e tenant) providerSource(origin string, p addr.Provider) (depot.Source, error) {
	if !strings.Contains(origin, "://") {
		h, err := e.toFrontEnd(cmp.Or(origin, p.Hostname), p.Item())
		if err != nil {
			return nil, err
		}
		return &upstream.Registry{Client: e.upstreamClient(e.conditionalClient(h)), Host: origin}, nil
	}
	if where, ok := strings.CutPrefix(origin, "oci://"); ok {
		return e.mirror(where, p)
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, &SourceError{From: origin, URL: true}
	}
	if err := requireHTTPS(u); err != nil {
		return nil, err
	}
	h, err := e.toFrontEnd(u.Host, p.Item())
	if err != nil {
		return nil, err
	}
	return HTTPSource(e.upstreamClient(h), u), nil
}

// mirror reads a provider from the mirror repositories at HOST[/PREFIX].
func (e tenant) mirror(where string, p addr.Provider) (depot.Source, error) {
	host, prefix, err := addr.SplitRegistry(where)
	if err != nil {
		return nil, err
	}
	layout := addr.Layout{Prefix: prefix}
	h, err := e.toRegistry(host, func(own addr.Layout) bool {
		layout = own
		return prefix == own.Prefix && e.may(p.Item())
	})
	if err != nil {
		return nil, err
	}
	client, err := oci.New(host, e.ociOptions(h))
	if err != nil {
		return nil, err
	}
	return RepositorySource(client, layout, ""), nil
}

// withPort returns the host of a URL with its port, for comparison.
func withPort(u *url.URL) string {
	port := map[string]string{"http": "80", "ssh": "22"}[u.Scheme]
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), cmp.Or(u.Port(), port, "443"))
}

// tenantTransport bounds each exchange, and refuses some hosts, also as a redirect's target.
type tenantTransport struct {
	next    http.RoundTripper
	refused []string // HOST:PORT
}

func (t tenantTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := requireHTTPS(r.URL); err != nil {
		return nil, err
	}
	if slices.Contains(t.refused, withPort(r.URL)) {
		return nil, deniedError("%s belongs to okara: use the address of the module or provider", r.URL.Host)
	}
	ctx, cancel := context.WithTimeout(r.Context(), tenantTime)
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &tenantBody{ReadCloser: resp.Body, left: tenantBytes, cancel: cancel}
	return resp, nil
}

type tenantBody struct {
	io.ReadCloser
	left   int64
	cancel context.CancelFunc
}

func (b *tenantBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("a source returned more than %d bytes: %w", tenantBytes, oci.ErrTooLarge)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	return n, err
}

func (b *tenantBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
