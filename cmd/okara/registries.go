// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/oci"
)

// registries is the way to OCI registries: the flags that say how to reach them,
// the user's credentials and one transport.
type registries struct {
	*app

	registry  string // --registry HOST[/PREFIX]
	caFile    string
	cert, key string
	insecure  bool
	plainHTTP bool

	transport http.RoundTripper // built once by httpTransport
	resolver  *credentials.Resolver
	asked     atomic.Pointer[asked]
}

// newRegistries returns the way to registries, and has hints name the credential that
// one of them refused.
func newRegistries(a *app) *registries {
	reg := &registries{app: a}
	a.used = reg.used
	return reg
}

// addFlags adds the flags that every command has.
func (reg *registries) addFlags(f *pflag.FlagSet) {
	f.StringVar(&reg.registry, "registry", "", "registry and prefix where artifacts live, `HOST[/PREFIX]` (OKARA_REGISTRY)")
	f.StringVar(&reg.caFile, "ca-file", "", "PEM `FILE` of certificate authorities to trust besides the system's")
	f.StringVar(&reg.cert, "client-cert", "", "PEM `FILE` of a client certificate")
	f.StringVar(&reg.key, "client-key", "", "PEM `FILE` of the client certificate's key")
	f.BoolVar(&reg.insecure, "insecure", false, "do not verify TLS certificates")
	f.BoolVar(&reg.plainHTTP, "plain-http", false, "speak http to a registry that is not on loopback")
	f.BoolVar(&reg.json, "json", false, "print the result as one JSON document")
	f.BoolVarP(&reg.quiet, "quiet", "q", false, "print the result and errors only")
	f.BoolVar(&reg.debug, "debug", false, "log every registry request to stderr, without secrets")
}

// ociOptions returns how okara reaches any registry: the user's credentials,
// one shared transport, and a debug log of requests with --debug.
func (reg *registries) ociOptions() (oci.Options, error) {
	t, err := reg.httpTransport()
	if err != nil {
		return oci.Options{}, err
	}
	return oci.Options{
		Credential: reg.credential,
		Rejected:   reg.credentials().Rejected,
		Transport:  t,
		PlainHTTP:  reg.plainHTTP,
		UserAgent:  reg.userAgent(),
		Logger:     reg.logger(),
	}, nil
}

// credential is that of a repository. What was asked for last is remembered, to be
// named if the registry refuses it.
func (reg *registries) credential(ctx context.Context, host, repository string) (oci.Credential, error) {
	reg.asked.Store(&asked{host: host, path: repository})
	return reg.credentials().Credential(ctx, host, repository)
}

// asked is a registry, or with a path a repository of it.
type asked struct{ host, path string }

func (t asked) String() string {
	if t.path == "" {
		return t.host
	}
	return t.host + "/" + t.path
}

// usedCredential says with what a repository was asked.
type usedCredential struct {
	target  asked
	name    string // "the password of me from FILE", "" for none; all that were tried, if several were
	several bool
	given   bool // it was given to okara itself
}

func (reg *registries) used() usedCredential {
	t := reg.asked.Load()
	if t == nil {
		return usedCredential{}
	}
	used := usedCredential{target: *t}
	list, err := reg.credentials().Explain(context.Background(), t.host, t.path)
	if err != nil {
		return used // the request failed for the same reason, which is the error
	}
	var names []string
	for _, c := range list {
		if c.Refused || c.Chosen && c.Source != credentials.Anonymous {
			names = append(names, credentialName(c))
			used.given = c.Source == credentials.Explicit
		}
	}
	used.name, used.several = strings.Join(names, ", and "), len(names) > 1
	return used
}

// credentialName says what a credential is and where it is kept.
func credentialName(c credentials.Candidate) string {
	name := "the " + cmp.Or(c.Kind, "credential")
	if c.Username != "" {
		name += " of " + c.Username
	}
	return name + " from " + cmp.Or(c.Location, c.Source)
}

// credentials returns the resolver of this run, so that each credential
// helper is asked once.
func (reg *registries) credentials() *credentials.Resolver {
	if reg.resolver == nil {
		reg.resolver = credentials.New(credentials.Options{Explicit: credentials.Given(reg.place(), reg.getenv), Getenv: reg.getenv, Logger: reg.warnLogger()})
	}
	return reg.resolver
}

func (reg *registries) httpTransport() (http.RoundTripper, error) {
	if reg.transport != nil {
		return reg.transport, nil
	}
	t, err := httpserve.Transport(reg.transportOptions())
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	reg.transport = t
	return t, nil
}

// place is the registry and prefix that the user named, "" for none.
func (reg *registries) place() string {
	return bare(cmp.Or(reg.registry, reg.getenv("OKARA_REGISTRY")))
}

// registryClient returns the client for the host of --registry, and the layout
// whose prefix is its path. Repository names of the layout are full names.
func (reg *registries) registryClient() (*oci.Client, addr.Layout, error) {
	where := reg.place()
	if where == "" {
		return nil, addr.Layout{}, withHint(usageError("no registry given"),
			"name it with --registry HOST[/PREFIX] or the variable OKARA_REGISTRY")
	}
	host, prefix, err := addr.SplitRegistry(where)
	if err != nil {
		return nil, addr.Layout{}, withHint(&exitError{code: exitUsage, err: err}, "a registry is written HOST[:PORT][/PREFIX]; for one without TLS add --plain-http")
	}
	c, err := reg.clientOf(host)
	if err != nil {
		return nil, addr.Layout{}, err
	}
	l := addr.Layout{Prefix: prefix}
	if err := l.Validate(); err != nil {
		return nil, addr.Layout{}, &exitError{code: exitUsage, err: err}
	}
	return c, l, nil
}

// clientOf returns the client of a registry without a prefix.
func (reg *registries) clientOf(host string) (*oci.Client, error) {
	o, err := reg.ociOptions()
	if err != nil {
		return nil, err
	}
	c, err := oci.New(host, o)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	return c, nil
}

// bare takes off what a reference or the name of a registry has when it was copied
// from a browser or a configuration.
func bare(reference string) string {
	for _, scheme := range []string{"oci://", "https://"} {
		reference = strings.TrimPrefix(reference, scheme)
	}
	return strings.TrimSuffix(reference, "/")
}

// openRepo returns the repository of a reference HOST[:PORT]/PATH.
func (reg *registries) openRepo(reference string) (*oci.Repo, error) {
	o, err := reg.ociOptions()
	if err != nil {
		return nil, err
	}
	r, err := oci.OpenRepo(bare(reference), o)
	if err != nil {
		return nil, withHint(&exitError{code: exitUsage, err: err}, "a repository is written HOST[:PORT]/PATH, without a tag")
	}
	return r, nil
}

// openThrough opens a repository over connections of its own, seen by wrap.
func (reg *registries) openThrough(reference string, wrap func(http.RoundTripper) http.RoundTripper) (*oci.Repo, error) {
	o, err := reg.ociOptions()
	if err != nil {
		return nil, err
	}
	base, err := httpserve.Transport(reg.transportOptions())
	if err != nil {
		return nil, err
	}
	o.Transport = wrap(base)
	r, err := oci.OpenRepo(reference, o)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	return r, nil
}

// hostToken returns the API token for a host, "" for none.
func (reg *registries) hostToken(host string) string {
	c, err := reg.credentials().Credential(context.Background(), host, "")
	if err != nil {
		return ""
	}
	return c.RegistryToken
}

// transportOptions are what the global flags say about TLS.
func (reg *registries) transportOptions() httpserve.TransportOptions {
	return httpserve.TransportOptions{
		CAFile: reg.caFile, ClientCert: reg.cert, ClientKey: reg.key, Insecure: reg.insecure, CertDirs: httpserve.CertDirs(reg.getenv),
	}
}
