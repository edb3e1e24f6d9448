// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cloudlogin"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/oci"
)

// Registries gives access to OCI registries: the flags that say how to reach them, the
// user's credentials and one transport.
type Registries struct {
	*App

	Registry  string // --registry HOST[/PREFIX]
	caFile    string
	cert, key string
	insecure  bool
	plainHTTP bool

	transport http.RoundTripper // built once by Transport
	resolver  *credentials.Resolver
	asked     atomic.Pointer[asked]
}

// NewRegistries returns access to registries, and lets hints name the credential that a
// registry refused.
func NewRegistries(a *App) *Registries {
	reg := &Registries{App: a}
	a.used = reg.lastUsed
	return reg
}

// AddFlags adds the flags that every command has.
func (reg *Registries) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&reg.Registry, "registry", "", "registry and prefix of the artifacts, `HOST[/PREFIX]` (OKARA_REGISTRY)")
	f.StringVar(&reg.caFile, "ca-file", "", "PEM `FILE` of certificate authorities to trust besides the system's")
	f.StringVar(&reg.cert, "client-cert", "", "PEM `FILE` of a client certificate")
	f.StringVar(&reg.key, "client-key", "", "PEM `FILE` of the client certificate's key")
	f.BoolVar(&reg.insecure, "insecure", false, "do not verify TLS certificates")
	f.BoolVar(&reg.plainHTTP, "plain-http", false, "use plain HTTP for a registry that is not on loopback")
	f.BoolVar(&reg.JSON, "json", false, "print the result as one JSON document")
	f.BoolVarP(&reg.Quiet, "quiet", "q", false, "print only the result and errors")
	f.BoolVar(&reg.Debug, "debug", false, "log every registry request to stderr, without secrets")
}

// OCIOptions returns the options for reaching any registry: the user's credentials, one
// shared transport, and a debug log of requests with --debug.
func (reg *Registries) OCIOptions() (oci.Options, error) {
	t, err := reg.Transport()
	if err != nil {
		return oci.Options{}, err
	}
	tagParts, err := depot.TagParts(reg.Getenv)
	if err != nil {
		return oci.Options{}, &ExitError{Code: ExitUsage, Err: err}
	}
	return oci.Options{
		Credential: reg.credential,
		Rejected:   reg.Credentials().Rejected,
		Transport:  t,
		PlainHTTP:  reg.plainHTTP,
		TagParts:   tagParts,
		UserAgent:  reg.UserAgent(),
		Logger:     reg.Logger(),
		Warned:     func(text string) { reg.Note("warning: the registry says: %s", text) },
	}, nil
}

// credential returns the credential of a repository. It remembers the last request, so that
// a hint can name the credential if the registry refuses it.
func (reg *Registries) credential(ctx context.Context, host, repository string) (oci.Credential, error) {
	reg.asked.Store(&asked{host: host, path: repository})
	return reg.Credentials().Credential(ctx, host, repository)
}

// asked is a registry, or with a path one of its repositories.
type asked struct{ host, path string }

func (t asked) String() string {
	if t.path == "" {
		return t.host
	}
	return t.host + "/" + t.path
}

// usedCredential describes the credentials of a request.
type usedCredential struct {
	target  asked
	name    string // "the password of me from FILE", "" for none; all that were tried, if several were
	chosen  string // the one of them that was sent last
	several bool
	given   bool // the credential was given to okara itself
}

func (reg *Registries) lastUsed() usedCredential {
	t := reg.asked.Load()
	if t == nil {
		return usedCredential{}
	}
	used := usedCredential{target: *t}
	list, err := reg.Credentials().Explain(context.Background(), t.host, t.path)
	if err != nil {
		return used // the request failed for the same reason, which is the error
	}
	var names []string
	for _, c := range list {
		if c.Refused || c.Chosen && c.Source != credentials.Anonymous {
			names = append(names, credentialName(c))
			used.given = c.Source == credentials.Explicit
		}
		if c.Chosen {
			used.chosen = credentialName(c)
		}
	}
	used.name = strings.Join(names, ", and ")
	used.several = len(names) > 1
	return used
}

// credentialName describes a credential and where it is stored.
func credentialName(c credentials.Candidate) string {
	name := "the " + cmp.Or(c.Kind, "credential")
	if c.Username != "" {
		name += " of " + c.Username
	}
	return name + " from " + cmp.Or(c.Location, c.Source)
}

// Credentials returns the resolver of this process, which calls each credential helper only
// once.
func (reg *Registries) Credentials() *credentials.Resolver {
	if reg.resolver == nil {
		reg.resolver = credentials.New(credentials.Options{
			Explicit: credentials.Given(reg.Named(), reg.Getenv), Getenv: reg.Getenv, Logger: reg.WarnLogger(),
			Identity: cloudlogin.New(func() (http.RoundTripper, error) { // clouds are always verified
				return httpserve.Transport(httpserve.TransportOptions{CAFile: reg.caFile})
			}),
		})
	}
	return reg.resolver
}

// Transport returns the one transport of this command line, with the settings of the TLS flags.
func (reg *Registries) Transport() (http.RoundTripper, error) {
	if reg.transport != nil {
		return reg.transport, nil
	}
	t, err := httpserve.Transport(reg.TransportOptions())
	if err != nil {
		return nil, &ExitError{Code: ExitUsage, Err: err}
	}
	reg.transport = &patience{base: t, a: reg.App}
	return reg.transport, nil
}

// patience says on stderr that a server does not answer, once.
type patience struct {
	base http.RoundTripper
	a    *App
	once sync.Once
}

const untilNote = 10 * time.Second

func (p *patience) RoundTrip(r *http.Request) (*http.Response, error) {
	t := time.AfterFunc(untilNote, func() { p.once.Do(func() { p.a.Note("waiting for %s to respond", r.URL.Host) }) })
	defer t.Stop()
	return p.base.RoundTrip(r)
}

// Named is the registry and prefix that the user named, "" for none.
func (reg *Registries) Named() string {
	return TrimScheme(cmp.Or(reg.Registry, reg.Getenv("OKARA_REGISTRY")))
}

// Client returns the client for the host of --registry, and the layout with its path as the
// prefix. Repository names of the layout are full names.
func (reg *Registries) Client() (*oci.Client, addr.Layout, error) {
	where := reg.Named()
	if where == "" {
		hint := "specify it with --registry HOST[/PREFIX] or the variable OKARA_REGISTRY"
		if reg.Getenv("OKARA_SERVER") != "" {
			hint = registryAlone
		}
		return nil, addr.Layout{}, WithHint(UsageError("no registry given"), "%s", hint)
	}
	host, prefix, err := addr.SplitRegistry(where)
	if err != nil {
		return nil, addr.Layout{}, WithHint(&ExitError{Code: ExitUsage, Err: err}, "expected HOST[:PORT][/PREFIX]; for a registry without TLS add --plain-http")
	}
	c, err := reg.ClientOf(host)
	if err != nil {
		return nil, addr.Layout{}, err
	}
	l := addr.Layout{Prefix: prefix}
	if err := l.Validate(); err != nil {
		return nil, addr.Layout{}, &ExitError{Code: ExitUsage, Err: err}
	}
	return c, l, nil
}

// ClientOf returns the client of a registry without a prefix.
func (reg *Registries) ClientOf(host string) (*oci.Client, error) {
	o, err := reg.OCIOptions()
	if err != nil {
		return nil, err
	}
	c, err := oci.New(host, o)
	if err != nil {
		return nil, &ExitError{Code: ExitUsage, Err: err}
	}
	return c, nil
}

// TrimScheme removes the scheme from a reference or registry name, which it has if it was
// copied from a browser or a configuration.
func TrimScheme(reference string) string {
	for _, scheme := range []string{"oci://", "https://"} {
		reference = strings.TrimPrefix(reference, scheme)
	}
	return strings.TrimSuffix(reference, "/")
}

// Reference returns a reference HOST[:PORT]/PATH, where PATH alone is below the named registry.
func (reg *Registries) Reference(reference string) string {
	reference = TrimScheme(reference)
	first, _, _ := strings.Cut(reference, "/")
	host, _, _ := strings.Cut(reg.Named(), "/")
	if host == "" || first == host || first == "localhost" || strings.ContainsAny(first, ".:") {
		return reference
	}
	return reg.Named() + "/" + reference
}

// OpenRepo returns the repository of a reference, see [Registries.Reference].
func (reg *Registries) OpenRepo(reference string) (*oci.Repo, error) {
	o, err := reg.OCIOptions()
	if err != nil {
		return nil, err
	}
	r, err := oci.OpenRepo(reg.Reference(reference), o)
	if err != nil {
		return nil, WithHint(&ExitError{Code: ExitUsage, Err: err}, "expected HOST[:PORT]/PATH, without a tag")
	}
	return r, nil
}

// OpenThrough opens a repository over separate connections, which wrap can observe.
func (reg *Registries) OpenThrough(reference string, wrap func(http.RoundTripper) http.RoundTripper) (*oci.Repo, error) {
	o, err := reg.OCIOptions()
	if err != nil {
		return nil, err
	}
	base, err := httpserve.Transport(reg.TransportOptions())
	if err != nil {
		return nil, err
	}
	o.Transport = wrap(base)
	r, err := oci.OpenRepo(reference, o)
	if err != nil {
		return nil, &ExitError{Code: ExitUsage, Err: err}
	}
	return r, nil
}

// HostToken returns the API token for a host, "" for none.
func (reg *Registries) HostToken(host string) string {
	c, err := reg.Credentials().Credential(context.Background(), host, "")
	if err != nil {
		return ""
	}
	return c.RegistryToken
}

// TransportOptions returns the TLS settings of the global flags.
func (reg *Registries) TransportOptions() httpserve.TransportOptions {
	o := httpserve.TransportOptions{
		CAFile: reg.caFile, ClientCert: reg.cert, ClientKey: reg.key, Insecure: reg.insecure, CertDirs: httpserve.CertDirs(reg.Getenv),
	}
	if reg.DryRun {
		o.Wrap = func(base http.RoundTripper) http.RoundTripper {
			return &rehearsal{base: base, written: map[string]*rehearsed{}}
		}
	}
	return o
}
