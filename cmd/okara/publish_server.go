// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/oci"
)

const serverHelp = `With --server it goes through a front-end (okara serve), which needs a token and
no credential for the registry: that of --token-file or OKARA_TOKEN, else the one
that tofu and terraform send there (TF_TOKEN_..., a credentials block), else, in
GitHub Actions with the permission id-token: write, the job's own.`

// publisher is where versions go: a registry or a front-end before it.
type publisher interface {
	PublishModule(ctx context.Context, tree fs.FS, m addr.ModuleVersion, o depot.ModuleOptions) (depot.Published, error)
	ModuleThere(ctx context.Context, m addr.ModuleVersion, plan *depot.ModulePlan, o depot.ModuleOptions) (existing bool, err error)
	PublishProvider(ctx context.Context, dist fs.FS, p addr.Provider, v addr.Version, o depot.ProviderOptions) (depot.Published, error)
	Versions(ctx context.Context, it addr.Item) (*depot.Listing, error)
}

// openPublisher returns the front-end of --server, else the registry. done ends the
// progress bars, if there are any, and must be called before anything is printed.
func openPublisher(reg *Registries, s ServerFlags) (p publisher, done func(), err error) {
	progress, done := reg.Progress()
	front, err := OpenFrontEnd(reg, s, progress)
	if err == nil && front != nil {
		return front, done, nil
	}
	if done(); err != nil {
		return nil, nil, err
	}
	return openDepot(reg)
}

// openCompared returns what a dry run compares with: nil if the command line and the
// environment name neither a registry nor a front-end.
func openCompared(reg *Registries, s ServerFlags) (p publisher, done func(), err error) {
	if cmp.Or(s.URL, reg.Registry, reg.Getenv("OKARA_SERVER"), reg.Getenv("OKARA_REGISTRY")) == "" {
		return nil, func() {}, nil
	}
	return openPublisher(reg, s)
}

// publishOne publishes to where the flags say, and prints what came of it.
func publishOne(reg *Registries, s ServerFlags, one func(publisher) (depot.Published, error)) error {
	p, done, err := openPublisher(reg, s)
	if err != nil {
		return err
	}
	out, err := one(p)
	done()
	if err != nil {
		return PublishHint(err)
	}
	if _, direct := p.(*depot.Depot); direct && !out.Existing {
		NoteDelay(reg.App)
	}
	return PrintPublished(reg.App, out)
}

// NoteDelay says when a front-end shows what was changed in the registry behind its
// back.
func NoteDelay(a *App) {
	a.Note("a front-end before this registry shows it within its tag TTL, 30 s by default; okara's built-in registry at once")
}

// ServerFlags name a front-end and who publishes there.
type ServerFlags struct{ URL, TokenFile, Audience string }

func (s *ServerFlags) Add(f *pflag.FlagSet) {
	f.StringVar(&s.URL, "server", "", "go through the front-end at this `URL` (OKARA_SERVER)")
	f.StringVar(&s.TokenFile, "token-file", "", "`FILE` with the token for --server, - for standard input (or the variable OKARA_TOKEN)")
	f.StringVar(&s.Audience, "audience", "", "`NAME` that the server expects in the token of a GitHub job; its URL by default")
}

// OpenFrontEnd returns the client of --server or OKARA_SERVER, nil without one. Who
// names a registry on the command line means that one.
func OpenFrontEnd(reg *Registries, s ServerFlags, progress func(depot.Event)) (*client.Client, error) {
	switch {
	case s.URL != "" && reg.Registry != "":
		return nil, UsageError("--server and --registry are two places; name one")
	case s.URL == "" && reg.Registry == "":
		s.URL = reg.Getenv("OKARA_SERVER")
	}
	if s.URL == "" {
		if s.TokenFile != "" || s.Audience != "" {
			return nil, UsageError("--token-file and --audience are for --server, which is missing")
		}
		return nil, nil
	}
	u, err := serverURL(reg, s.URL)
	if err != nil {
		return nil, err
	}
	t, err := reg.Transport()
	if err != nil {
		return nil, err
	}
	o := client.Options{Server: u, Transport: t, UserAgent: reg.UserAgent(), Logger: reg.Logger(), Progress: progress}
	o.Token, o.TokenFrom, err = serverToken(reg, s, o)
	return client.New(o), err
}

// serverURL parses an address to which a token may be sent.
func serverURL(reg *Registries, s string) (*url.URL, error) {
	u, err := netaddr.ParseServer(s)
	switch {
	case err != nil:
		return nil, UsageError("%w", err)
	case u.Scheme == "http" && !reg.plainHTTP && !netaddr.IsLoopback(u.Host):
		return nil, WithHint(UsageError("%s: a token is not sent without TLS", u), "write https://, or add --plain-http")
	}
	return u, nil
}

// serverToken finds the token for a front-end, and says where.
func serverToken(reg *Registries, s ServerFlags, o client.Options) (_ client.TokenFunc, from string, err error) {
	token, err := ReadToken(reg.In, s.TokenFile)
	if err != nil {
		return nil, "", err
	}
	from = "--token-file " + s.TokenFile
	if s.TokenFile == "" {
		token, from = strings.TrimSpace(reg.Getenv("OKARA_TOKEN")), "the variable OKARA_TOKEN"
	}
	if token == "" {
		token, from = reg.Credentials().ServiceToken(o.Server.Host), "what tofu and terraform send to "+o.Server.Host
	}
	if token == "" {
		from = ""
	}
	if !credentials.IsToken(token) {
		return nil, from, UsageError("the token for %s, from %s, has characters that no token has", o.Server.Host, from)
	}
	endpoint, secret := reg.Getenv("ACTIONS_ID_TOKEN_REQUEST_URL"), reg.Getenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
	if token != "" || endpoint == "" || secret == "" {
		return func(context.Context) (string, error) { return token, nil }, from, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" && !netaddr.IsLoopback(u.Hostname()) {
		return nil, "", UsageError("ACTIONS_ID_TOKEN_REQUEST_URL is no https URL")
	}
	audience := cmp.Or(s.Audience, strings.TrimSuffix(o.Server.String(), "/"))
	return client.GitHubToken(o, u, secret, audience), "this job of GitHub Actions", nil
}

// ServerHint says what to do about the refusals of a front-end.
func ServerHint(err error) error {
	refused, came := "", ""
	if e, ok := errors.AsType[*client.Error](err); ok && e.TokenFrom != "" {
		refused, came = "the token from "+e.TokenFrom+" was refused; ", "; it came from "+e.TokenFrom
	}
	switch {
	case errors.Is(err, oci.ErrUnauthenticated):
		return WithHint(err, "%s", refused+"give a token with --token-file FILE or OKARA_TOKEN; in GitHub Actions the job needs `permissions: id-token: write`, and the server an issuer block with this audience")
	case errors.Is(err, oci.ErrDenied):
		return WithHint(err, "the token is valid, but none of the server's scopes and rules lets it do this%s", came)
	case errors.Is(err, oci.ErrExists):
		return WithHint(err, "a published version never changes; publish under a new version")
	case errors.Is(err, oci.ErrNotFound):
		return WithHint(err, "is there such a version, and is this the address of `okara serve`?")
	}
	return err
}

// frontPath is where a front-end takes changes of the item.
func frontPath(it addr.Item) (string, error) {
	switch it.Kind {
	case addr.KindModule:
		return client.ModulePath(it.Module), nil
	case addr.KindProvider:
		return client.ProviderPath(it.Provider), nil
	}
	return "", UsageError("%s is mirrored; a front-end takes changes of what was published there only", it.Provider)
}
