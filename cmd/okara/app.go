// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/oci"
)

// app is what every command shares: the streams, the environment and the
// global flags. One app serves one command line.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	version  string

	registry  string // --registry HOST[/PREFIX]
	caFile    string
	cert, key string
	insecure  bool
	plainHTTP bool
	json      bool
	quiet     bool
	debug     bool

	tracer    trace.TracerProvider // nil: nothing is traced
	transport http.RoundTripper    // built once by httpTransport
	resolver  *credentials.Resolver
	originSet originSet
	origins   origins
}

// version is the module version of the binary, or "devel".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// ociOptions returns how okara reaches any registry: the user's credentials,
// one shared transport, and a debug log of requests with --debug.
func (a *app) ociOptions() (oci.Options, error) {
	t, err := a.httpTransport()
	if err != nil {
		return oci.Options{}, err
	}
	return oci.Options{
		Credential: a.credentials().Credential,
		Rejected:   a.credentials().Rejected,
		Transport:  t,
		PlainHTTP:  a.plainHTTP,
		UserAgent:  a.userAgent(),
		Logger:     a.logger(),
	}, nil
}

func (a *app) userAgent() string { return "okara/" + a.version }

// credentials returns the resolver of this run, so that each credential
// helper is asked once.
func (a *app) credentials() *credentials.Resolver {
	if a.resolver == nil {
		a.resolver = credentials.New(credentials.Options{Explicit: a.explicitCredentials(), Getenv: a.getenv, Logger: a.warnLogger()})
	}
	return a.resolver
}

func (a *app) httpTransport() (http.RoundTripper, error) {
	if a.transport != nil {
		return a.transport, nil
	}
	t, err := httpserve.Transport(a.transportOptions())
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	a.transport = t
	return t, nil
}

// registryClient returns the client for the host of --registry, and the layout
// whose prefix is its path. Repository names of the layout are full names.
func (a *app) registryClient() (*oci.Client, addr.Layout, error) {
	where := a.registry
	if where == "" {
		where = a.getenv("OKARA_REGISTRY")
	}
	if where == "" {
		return nil, addr.Layout{}, withHint(usageError("no registry given"),
			"name it with --registry HOST[/PREFIX] or the variable OKARA_REGISTRY")
	}
	host, prefix, err := addr.SplitRegistry(where)
	if err != nil {
		return nil, addr.Layout{}, &exitError{code: exitUsage, err: err}
	}
	c, err := a.clientOf(host)
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
func (a *app) clientOf(host string) (*oci.Client, error) {
	o, err := a.ociOptions()
	if err != nil {
		return nil, err
	}
	c, err := oci.New(host, o)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	return c, nil
}

// openRepo returns the repository of a reference HOST[:PORT]/PATH.
func (a *app) openRepo(reference string) (*oci.Repo, error) {
	o, err := a.ociOptions()
	if err != nil {
		return nil, err
	}
	r, err := oci.OpenRepo(reference, o)
	if err != nil {
		return nil, withHint(&exitError{code: exitUsage, err: err}, "a repository is written HOST[:PORT]/PATH, without a tag")
	}
	return r, nil
}

// selected is the module or provider that an argument names, in the depot of
// --registry.
type selected struct {
	addr.Selection
	address string // as it was written
	depot   *depot.Depot
	catalog *catalog.Catalog
	repo    *oci.Repo
	version addr.Version // set by pick
}

// selected reads ADDRESS[@CONSTRAINT].
func (a *app) selected(arg string, progress func(depot.Event)) (selected, error) {
	it, err := addr.ParseSelection(arg)
	if err != nil {
		return selected{}, usageError("%w", err)
	}
	client, layout, err := a.registryClient()
	if err != nil {
		return selected{}, err
	}
	r, err := client.Repo(it.Repository(layout))
	address, _, _ := strings.Cut(arg, "@")
	return selected{Selection: it, address: address, depot: depot.New(depot.Options{Client: client, Layout: layout, Progress: progress}),
		catalog: catalog.New(catalog.Options{Client: client, Layout: layout, Logger: a.warnLogger()}), repo: r}, err
}

// pick is selected with the version that is meant.
func (a *app) pick(ctx context.Context, arg string, progress func(depot.Event)) (selected, error) {
	t, err := a.selected(arg, progress)
	if err == nil {
		_, t.version, err = itemVersion(ctx, t.catalog, t.Selection)
	}
	return t, err
}

// logger is the debug log of --debug, nil without it.
func (a *app) logger() *slog.Logger {
	if !a.debug {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// warnLogger shows warnings to the user, and everything with --debug.
func (a *app) warnLogger() *slog.Logger {
	if l := a.logger(); l != nil {
		return l
	}
	level := slog.LevelWarn
	if a.quiet {
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime}))
}

func withoutTime(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}

// hostToken returns the API token for a host, "" for none.
func (a *app) hostToken(host string) string {
	c, err := a.credentials().Credential(context.Background(), host, "")
	if err != nil {
		return ""
	}
	return c.RegistryToken
}
