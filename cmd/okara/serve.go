// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/blobcache"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

const serveLong = `Serve modules, providers and state to stock tofu and terraform.

One port answers the module and provider registry protocols, the network
mirror, the http state backend, and, unless --registry names another one, the
OCI registry that everything is stored in.

A flag may also be given as a variable: OKARA_SERVE_TOKEN_FILE is --token-file. A
flag wins over its variable, and that over the configuration file.

On a loopback address everybody may do everything. On any other address okara
wants to know who may: give --token-file, --anonymous-read, --anonymous-write or
--pass-through.

The file of --config has these settings and more: rules for tokens of CI systems
and people, the layout of the registry, and github blocks, which publish modules
from webhooks of GitHub.`

const serveExample = `  okara serve
  okara serve --listen :8443 --tls-cert cert.pem --tls-key key.pem --token-file tokens
  okara serve --tls-self-signed --registry registry.example.com/platform
  okara serve --config okara.hcl`

// serveFlags are the flags of okara serve.
type serveFlags struct {
	config         string
	registry       string // set by the configuration file; --registry is global
	auditLog       string
	depot          depotFlags
	listen         string
	metricsListen  string
	storage        string
	hostname       string
	basePath       string
	tlsCert        string
	tlsKey         string
	selfSigned     bool
	tokenFile      string
	anonymousRead  bool
	anonymousWrite bool
	passThrough    bool
	redirect       string
	archiveTTL     time.Duration
	tagTTL         time.Duration
	cacheBlobs     byteCount
	cacheDir       string
	grace          time.Duration
	drain          time.Duration
	gcInterval     time.Duration
	gcMinAge       time.Duration
}

func newServe(a *app) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve modules, providers and state from an OCI registry",
		Long:    serveLong,
		Example: serveExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.fromEnvironment("OKARA_SERVE_", cmd.Flags()); err != nil {
				return err
			}
			return a.serve(cmd.Context(), f, func(name string) bool { return cmd.Flags().Changed(name) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "HCL `FILE` with these settings and the rules of access")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to listen on")
	fl.StringVar(&f.metricsListen, "metrics-listen", "", "another `ADDRESS` for /metrics, which then is nowhere else")
	fl.StringVar(&f.storage, "storage", "", "`DIR` for the embedded registry, the link key and the local CA (default $XDG_DATA_HOME/okara)")
	fl.StringVar(&f.hostname, "hostname", "", "`HOST` by which clients call this server; /mirror/ has its own providers under it")
	fl.StringVar(&f.basePath, "base-path", "", "`PATH` below which a proxy serves okara")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "PEM `FILE` of the server certificate")
	fl.StringVar(&f.tlsKey, "tls-key", "", "PEM `FILE` of its key")
	fl.BoolVar(&f.selfSigned, "tls-self-signed", false, "make a certificate with a local CA kept below --storage")
	fl.StringVar(&f.tokenFile, "token-file", "", "`FILE` of tokens and their scopes, one per line")
	fl.BoolVar(&f.anonymousRead, "anonymous-read", false, "let everybody read modules and providers")
	fl.BoolVar(&f.anonymousWrite, "anonymous-write", false, "let everybody do everything")
	fl.BoolVar(&f.passThrough, "pass-through", false, "use the caller's own registry credential, which okara auth token prints, as the token")
	fl.StringVar(&f.auditLog, "audit-log", "", "`FILE` that gets one JSON line per decision and change, - for stderr")
	fl.StringVar(&f.depot.file, "depot", "", "depot `FILE` to run on its interval, one replica at a time")
	a.origins.add(fl)
	fl.StringArrayVar(&f.depot.usedBy, "used-by", nil, "lock `FILE`, or folder of them, whose versions the depot's retention keeps (repeatable)")
	fl.StringVar(&f.redirect, "archive-redirect", "auto", "send archive downloads to the registry's own storage: `auto` or never")
	fl.DurationVar(&f.archiveTTL, "archive-ttl", 4*time.Hour, "how long an archive link is good")
	fl.DurationVar(&f.tagTTL, "tag-ttl", 30*time.Second, "how long a module version is trusted not to have moved")
	fl.Var(&f.cacheBlobs, "cache-blobs", "keep archives of --registry on disk, up to `SIZE` such as 20GiB; the least recently used go first")
	fl.StringVar(&f.cacheDir, "cache-dir", "", "`DIR` for them (default blobs below --storage)")
	fl.DurationVar(&f.grace, "grace", 5*time.Second, "how long to go on accepting requests after a signal, for load balancers to notice; on a loopback address only if given")
	fl.DurationVar(&f.drain, "drain", 10*time.Minute, "how long running downloads may go on after that")
	fl.DurationVar(&f.gcInterval, "gc-interval", time.Hour, "how often the embedded registry frees the space of what no tag leads to, 0: never")
	fl.DurationVar(&f.gcMinAge, "gc-min-age", 24*time.Hour, "what it then leaves alone: everything younger, at least 1h")
	return cmd
}

// serve runs until the context ends; running downloads may then finish. given
// tells which flags are on the command line.
func (a *app) serve(ctx context.Context, f serveFlags, given func(flag string) bool) error {
	config := &serveConfig{}
	if f.config != "" {
		var err error
		if config, err = readServeConfig(f.config); err != nil {
			return err
		}
		if !given("allow-internal") {
			a.origins.allowed = config.AllowInternal
		}
		if err := config.flags(&f, given); err != nil {
			return err
		}
	}
	if f.registry != "" && a.registry == "" {
		a.registry = f.registry
	}
	if f.storage == "" {
		f.storage = a.dataDir()
	}
	log := a.serverLogger()
	o, back, err := a.serveOptions(f, config, log)
	if back.own != nil {
		defer back.own.Close() // after the last request
	}
	if err != nil {
		return err
	}
	if f.auditLog != "" {
		out, closeLog, err := a.openLog(f.auditLog, log)
		if err != nil {
			return err
		}
		defer closeLog()
		o.Audit = slog.New(slog.NewJSONHandler(out, nil))
	}
	var runner *depotRunner
	if f.depot.file != "" {
		if runner, err = a.newDepotRunner(f.depot, o, log); err != nil {
			return err
		}
		o.Depot = runner
	}
	front, err := registry.New(o)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	ca, tlsConfig, err := f.tls()
	if err != nil {
		return err
	}
	access := a.logger()
	if config.AccessLog {
		access = log
	}
	if host, _, err := net.SplitHostPort(f.listen); err == nil && loopback(host) && !given("grace") && config.Grace == "" {
		f.grace = 0 // no load balancer looks at it
	}
	srv, err := httpserve.Listen(httpserve.Options{
		Addr: f.listen, Handler: front, TLSCert: f.tlsCert, TLSKey: f.tlsKey, TLS: tlsConfig,
		Logger: access, Tracer: a.tracer, ShutdownGrace: f.grace, Drain: f.drain,
	})
	if err != nil {
		return err
	}
	stopMetrics, err := a.serveMetrics(ctx, f.metricsListen, o.Metrics)
	if err != nil {
		return err
	}
	if err := a.announce(srv.URL(), back.where, ca); err != nil {
		return errors.Join(err, stopMetrics())
	}
	context.AfterFunc(ctx, front.Closing)
	var running sync.WaitGroup
	running.Go(func() { front.Run(ctx) })
	if back.own != nil {
		running.Go(func() { back.own.Run(ctx, f.collections(o.Metrics)) })
	}
	if runner != nil {
		running.Go(func() { runner.run(ctx) })
	}
	err = srv.Serve(ctx)
	running.Wait()
	front.Finish(ctx)
	return errors.Join(err, stopMetrics())
}

// serveOptions puts the front-end together and opens what is behind it.
func (a *app) serveOptions(f serveFlags, config *serveConfig, log *slog.Logger) (registry.Options, backend, error) {
	o := registry.Options{
		Hostname: f.hostname, BasePath: f.basePath, TagTTL: f.tagTTL, Logger: log, Metrics: registry.NewMetrics(), HideMetrics: f.metricsListen != "",
		Archives: registry.Archives{TTL: f.archiveTTL, Redirect: f.redirect},
		Blobs:    blobcache.Options{Dir: cmp.Or(f.cacheDir, filepath.Join(f.storage, "blobs")), Bytes: int64(f.cacheBlobs)},
	}
	var back backend
	var err error
	if o.Access, err = f.access(); err != nil {
		return o, back, err
	}
	back, err = a.serveBackend(f, o.Metrics, log)
	if err != nil {
		return o, back, err
	}
	o.Client, o.Layout, o.Embedded, o.Files = back.client, back.layout, back.embedded, back.files
	o.DeniedMeansMissing = back.client.Host() == "ghcr.io" // it refuses to tell that a repository is missing
	if f.passThrough {
		if back.with == nil {
			return o, back, withHint(usageError("--pass-through needs a registry that knows the callers"), "name it with --registry HOST[/PREFIX]")
		}
		o.PassThrough = back.with
	}
	if o.Transport, err = a.httpTransport(); err != nil {
		return o, back, err
	}
	if err := config.options(&o); err != nil {
		return o, back, err
	}
	if o.GitHub, err = a.serveGitHub(config); err != nil {
		return o, back, err
	}
	if o.PullThrough, err = a.pullRules(config, o.Metrics); err != nil {
		return o, back, err
	}
	if err := f.checkOpen(&o.Access); err != nil {
		return o, back, err
	}
	if len(o.Archives.Keys) == 0 {
		key, err := archiveKey(filepath.Join(f.storage, "archive.key"))
		if err != nil {
			return o, back, err
		}
		o.Archives.Keys = []registry.Key{key}
	}
	back.layout = o.Layout
	o.State, err = a.stateServer(back, log)
	return o, back, err
}

// openLog opens a log for appending.
func (a *app) openLog(file string, log *slog.Logger) (io.Writer, func(), error) {
	if file == "-" {
		return a.err, func() {}, nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, &exitError{code: exitUsage, err: err}
	}
	out := registry.NewAuditLog(f, func(err error) { log.Error("audit log not written", "error", err) })
	return out, func() {
		if err := errors.Join(out.Close(), f.Close()); err != nil {
			a.note("close %s: %v", file, err)
		}
	}, nil
}

// backend is the registry behind a server.
type backend struct {
	client   *oci.Client
	layout   addr.Layout
	embedded http.Handler       // nil: a registry elsewhere
	own      *embedded.Registry // the same
	where    string

	files func(repository, sha256hex string) (*os.File, error) // its blobs; nil: not on this machine
	with  func(oci.Credential) (*oci.Client, error)            // a client with another credential; nil: embedded
}

// serveBackend returns the registry of --registry, or the embedded one. The
// variable OKARA_REGISTRY is for clients: it may well name this very server.
func (a *app) serveBackend(f serveFlags, m *registry.Metrics, log *slog.Logger) (backend, error) {
	if a.registry != "" {
		return a.remoteBackend(m)
	}
	dir := filepath.Join(f.storage, "registry")
	h, err := embedded.New(dir, embedded.Options{Logger: log})
	if errors.Is(err, embedded.ErrInUse) {
		return backend{}, withHint(err, "one server has one directory: give this one another --storage, or let several servers share a --registry")
	}
	if err != nil {
		return backend{}, fmt.Errorf("open storage %s: %w", dir, err)
	}
	o := oci.Options{Transport: m.Transport(httpserve.Traced(inProcess{h})), PlainHTTP: true, UserAgent: a.userAgent(), Logger: a.logger()}
	c, err := oci.New(embeddedHost, o)
	return backend{client: c, embedded: h, own: h, files: h.OpenBlob, where: dir}, err
}

func (a *app) remoteBackend(m *registry.Metrics) (backend, error) {
	host, prefix, err := addr.SplitRegistry(a.registry)
	if err != nil {
		return backend{}, &exitError{code: exitUsage, err: err}
	}
	o, err := a.ociOptions()
	if err != nil {
		return backend{}, err
	}
	o.Transport = registry.Limited(m.Transport(o.Transport)) // waiting is no time of the registry
	o.Retry = oci.Retry{MaxAttempts: 4, InitialBackoff: 200 * time.Millisecond, MaxBackoff: 2 * time.Second}
	with := func(c oci.Credential) (*oci.Client, error) {
		own := o
		own.Credential = func(context.Context, string, string) (oci.Credential, error) { return c, nil }
		own.Rejected = nil
		return oci.New(host, own)
	}
	c, err := oci.New(host, o)
	return backend{client: c, layout: addr.Layout{Prefix: prefix}, where: a.registry, with: with}, err
}

// access turns the flags into rights.
func (f serveFlags) access() (registry.Policy, error) {
	var access registry.Policy
	if f.tokenFile != "" {
		tokens, err := readTokens(f.tokenFile)
		if err != nil {
			return access, err
		}
		access.Tokens = tokens
	}
	switch {
	case f.anonymousWrite:
		access.Anonymous = registry.AnonymousAll()
	case f.anonymousRead:
		access.Anonymous = registry.AnonymousRead()
	}
	return access, nil
}

// checkOpen gives everybody all rights on a loopback listener, where nothing
// else is said, and refuses to do so elsewhere.
func (f serveFlags) checkOpen(access *registry.Policy) error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return usageError("--listen %q: %v", f.listen, err)
	}
	if access.Anonymous != nil || len(access.Tokens) > 0 || len(access.Rules) > 0 || f.passThrough {
		return nil
	}
	if !loopback(host) {
		return withHint(usageError("%s is reachable from other machines, and nothing says who may use it", f.listen),
			"give --token-file FILE, or --anonymous-read for a public server, or listen on 127.0.0.1")
	}
	access.Anonymous = registry.AnonymousAll()
	return nil
}

// loopback reports whether only this machine reaches the host.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// dataDir is where okara keeps what must outlive it.
func (a *app) dataDir() string {
	if dir := a.getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "okara")
	}
	return filepath.Join(a.getenv("HOME"), ".local", "share", "okara")
}

// serverLogger logs what an operator must know; with --debug also requests.
func (a *app) serverLogger() *slog.Logger {
	level := slog.LevelInfo
	switch {
	case a.debug:
		level = slog.LevelDebug
	case a.quiet:
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
}
