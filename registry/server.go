// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/blobcache"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
)

// Options is everything a front-end needs. Client and at least one archive key
// are required.
type Options struct {
	Client   *oci.Client // the registry, with the front-end's own credentials
	Layout   addr.Layout // where modules and providers are in it
	Hostname string      // name under which /mirror/ serves own providers; empty: the one the client used
	// PublicURL is where browsers reach the front-end. Where everybody may write,
	// it answers to its host and to Hostname only, besides loopback names.
	PublicURL string
	BasePath  string // path below which a proxy serves the front-end, for the discovery document

	Access   access.Policy                  // who may do what; the zero value allows nobody anything
	Require  map[string]depot.VerifyOptions // by kind: what a module, provider or mirror version must fulfil to be served
	Revoked  catalog.RevokedKeys            // OpenPGP keys that nothing is served with any more
	Archives Archives                       // how archives are linked and delivered
	Modules  Modules                        // how module downloads are answered
	Login    *access.Login                  // `tofu login`, nil: none
	TagTTL   time.Duration                  // how long the version tag of a module is trusted; 0: 30 s
	// DeniedMeansMissing answers 404 where the registry refuses a read: some
	// registries hide missing repositories that way, and clients go on to their
	// next source only at 404.
	DeniedMeansMissing bool

	// PullThrough says which providers are fetched from their origin when they
	// are asked for. The first rule that matches decides; nil: none is.
	PullThrough []PullRule

	Embedded http.Handler // the registry to serve under /v2/, nil: none
	State    http.Handler // the state server under /state/, nil: none
	Depot    http.Handler // asked by POST /depot/sync to run the depot file now, nil: none

	// Files opens a blob of a registry whose files are on this machine, by
	// repository and SHA-256 in hex; nil: they are not.
	Files func(repository, sha256hex string) (*os.File, error)
	Blobs blobcache.Options // where archives of any other registry are kept; the zero value: nowhere

	// GitHub are the owners whose webhooks POST /hooks/github takes; none: no
	// such route.
	GitHub []GitHub

	// PassThrough makes a client that uses a caller's own registry credential,
	// which is then what a token is that has no other meaning; nil: such tokens
	// are refused.
	PassThrough func(oci.Credential) (*oci.Client, error)

	Proxies     []netip.Prefix // whose X-Forwarded-For is believed
	Metrics     *Metrics       // nil: counted, but not served under /metrics
	HideMetrics bool           // /metrics has a listener of its own
	Audit       *slog.Logger   // one record per decision and change; nil: none

	Logger    *slog.Logger      // one record per failed request; nil: none
	Transport http.RoundTripper // to issuers of tokens; nil: http.DefaultTransport
	Now       func() time.Time  // nil: time.Now
}

// server answers all routes. Everything but the caches is read-only.
type server struct {
	o       Options
	log     *slog.Logger
	now     func() time.Time
	keys    *access.Keyring
	links   *links
	access  *access.Guard
	kit     *service.Kit
	metrics *Metrics
	catalog *catalog.Catalog
	pull    *pullThrough
	pulls   pulls
	depot   *depot.Depot
	queue   *jobs.Queue
	counts  *counts
	slots   *service.Places  // one per running archive download
	files   *blobcache.Cache // nil: none are kept
	stall   time.Duration    // a download whose client takes no byte for so long ends
	hooks   *service.Places  // one per webhook that is being read
	large   *service.Places  // the same, of those that are not small

	onBehalf bool        // every caller brings a credential
	ready    atomic.Bool // the registry has answered once
	closing  atomic.Bool // shutdown has begun
}

// Handler is the front-end. It is safe for concurrent use.
type Handler struct {
	http.Handler
	s *server
}

// Closing makes /readyz answer 503, so that load balancers look elsewhere. All
// other routes go on.
func (h *Handler) Closing() { h.s.closing.Store(true) }

// Run does the work that no request waits for, until ctx ends. One process
// calls it once.
func (h *Handler) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { h.s.queue.Run(ctx) })
	running.Go(func() { h.s.counts.run(ctx) })
	running.Wait()
}

// Finish does what is left when the last request has been answered and Run has
// returned. It takes a few seconds at most, whether ctx has ended or not.
func (h *Handler) Finish(ctx context.Context) { h.s.counts.finish(ctx) }

// New returns the front-end, or an error that names the option at fault. It
// makes no request.
func New(o Options) (*Handler, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	h := s.routes()
	if o.PassThrough != nil {
		h = newPassThrough(s).around(h)
	}
	return &Handler{Handler: s.screened(h), s: s}, nil
}

func newServer(o Options) (*server, error) {
	if o.Client == nil {
		return nil, errors.New("front-end: no registry client")
	}
	if err := o.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("front-end: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Archives = o.Archives.withDefaults()
	if err := errors.Join(o.Modules.validate(), o.Archives.validate(), validateGitHub(o.GitHub)); err != nil {
		return nil, fmt.Errorf("front-end: %w", err)
	}
	if len(o.PullThrough) > 0 && !pullable(o.Require[addr.KindMirror]) {
		return nil, errors.New("front-end: pull-through answers for a version before anybody could sign or scan it; require nothing but openpgp of mirrored providers")
	}
	for kind, require := range o.Require {
		if err := catalog.ValidateRequire(kind, require); err != nil {
			return nil, fmt.Errorf("front-end: %w", err)
		}
	}
	keys, err := access.NewKeyring(o.Archives.Keys)
	if err != nil {
		return nil, fmt.Errorf("front-end: %w", err)
	}
	metrics := o.Metrics
	if metrics == nil {
		metrics = NewMetrics()
	}
	guard, err := o.guard(keys, metrics)
	if err != nil {
		return nil, fmt.Errorf("front-end: %w", err)
	}
	files, err := blobcache.New(o.Blobs, o.Logger, func(result string) { metrics.looked("file", result) })
	if err != nil {
		return nil, fmt.Errorf("front-end: %w", err)
	}
	s := &server{
		metrics: metrics,
		access:  guard,
		kit:     service.New(service.Options{Guard: guard, Answered: metrics.answered, Logger: o.Logger}),
		o:       o, log: o.Logger, now: o.Now, keys: keys, links: &links{keys: keys, ttl: o.Archives.TTL, now: o.Now},
		catalog: catalog.New(catalog.Options{
			Client: o.Client, Layout: o.Layout, Require: o.Require, Revoked: o.Revoked, TagTTL: o.TagTTL,
			Watch: metrics.watch(), Logger: o.Logger, Now: o.Now,
		}),
		pull:  newPullThrough(o, metrics),
		pulls: pulls{room: service.NewPlaces(maxPulls), disk: semaphore.NewWeighted(maxPulled), running: map[string]*pulled{}},
		depot: depot.New(depot.Options{Client: o.Client, Layout: o.Layout}),
		slots: service.NewPlaces(maxStreams), hooks: service.NewPlaces(maxHooks), large: service.NewPlaces(maxLargeHooks),
		files: files, stall: stallTimeout,
	}
	handlers := map[string]jobs.Handler{}
	if len(o.GitHub) > 0 {
		handlers[jobGitHub] = s.publishTag
	}
	if len(o.PullThrough) > 0 {
		handlers[jobPull] = s.completePull
	}
	queue, err := o.Client.Repo(o.Layout.QueueRepo())
	if err != nil {
		return nil, fmt.Errorf("front-end: %w", err)
	}
	s.queue = jobs.New(jobs.Options{Repo: queue, Handlers: handlers, Counted: metrics.queued, Logger: o.Logger, Now: o.Now})
	if s.counts, err = newCounts(o); err != nil {
		return nil, fmt.Errorf("front-end: %w", err)
	}
	return s, nil
}

// guard returns what decides about requests.
func (o Options) guard(keys *access.Keyring, m *Metrics) (*access.Guard, error) {
	out := access.Options{
		Policy: o.Access, Login: o.Login, Keyring: keys, Names: []string{o.Hostname, o.PublicURL}, Proxies: o.Proxies,
		Audit: o.Audit, Decided: func(mode, decision string) { m.auth.WithLabelValues(mode, decision).Inc() },
		Logger: o.Logger, Transport: o.Transport, Now: o.Now,
	}
	if o.PassThrough != nil {
		out.PassThrough = passes
	}
	return access.New(out)
}

// routes is the whole surface of the front-end. HEAD works wherever GET does.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	meta := func(pattern string, h service.Handler) { mux.Handle(pattern, s.wrap(s.kit.Limit(h))) }

	meta("GET /.well-known/terraform.json", s.discovery)

	meta("GET /v1/modules/{namespace}/{name}/{system}/versions", s.moduleVersions)
	meta("GET /v1/modules/{namespace}/{name}/{system}/{version}/download", s.moduleDownload)

	meta("GET /v1/modules/{namespace}/{name}/{system}/download", s.moduleLatest)
	meta("GET /v1/modules/{namespace}/{name}/{system}/{version}", s.moduleDetail)
	meta("GET /v1/modules/{namespace}/{name}/{system}", s.moduleDetail)
	meta("GET /v1/modules/{namespace}/{name}", s.listModules)
	meta("GET /v1/modules/{namespace}", s.listModules)
	meta("GET /v1/modules/search", s.listModules)
	meta("GET /v1/modules/{$}", s.listModules)
	meta("GET /v1/modules", s.listModules)
	mux.Handle("PUT /v1/modules/{namespace}/{name}/{system}/{version}", s.wrap(s.publishModule))
	mux.Handle("POST /v1/modules/{namespace}/{name}/{system}/{version}/status", s.wrap(s.moduleStatus))
	meta("GET /v1/modules/{namespace}/{name}/{system}/{version}/signatures", s.moduleSignatures)
	mux.Handle("POST /v1/modules/{namespace}/{name}/{system}/{version}/signatures", s.wrap(s.signModule))

	meta("GET /v1/providers/{namespace}/{type}/versions", s.providerVersions)
	meta("GET /v1/providers/{namespace}/{type}/{version}/download/{os}/{arch}", s.providerPackage)
	mux.Handle("PUT /v1/providers/{namespace}/{type}/{version}/files/{filename}", s.wrap(s.uploadFile))
	mux.Handle("POST /v1/providers/{namespace}/{type}/{version}/files/{filename}", s.wrap(s.knownFile))
	mux.Handle("POST /v1/providers/{namespace}/{type}/{version}", s.wrap(s.publishProvider))
	mux.Handle("POST /v1/providers/{namespace}/{type}/{version}/status", s.wrap(s.providerStatus))
	meta("GET /v1/providers/{namespace}/{type}/{version}/signatures", s.providerSignatures)
	mux.Handle("POST /v1/providers/{namespace}/{type}/{version}/signatures", s.wrap(s.signProvider))
	meta("GET /origin/{hostname}/v1/providers/{namespace}/{type}/versions", s.providerVersions)
	meta("GET /origin/{hostname}/v1/providers/{namespace}/{type}/{version}/download/{os}/{arch}", s.providerPackage)

	meta("GET /mirror/{hostname}/{namespace}/{type}/index.json", s.mirrorIndex)
	meta("GET /mirror/{hostname}/{namespace}/{type}/{file}", s.mirrorVersion)

	mux.Handle("GET /archives/{token}/{rest...}", s.wrap(s.archive))
	meta("/archives/{token}", s.unknown) // or the multiplexer would redirect

	if s.o.Login != nil && !s.o.Login.Direct {
		meta("GET /login/authorize", s.access.LoginAuthorize)
		meta("GET /login/callback", s.access.LoginCallback)
		meta("POST /login/token", s.loginExchange)
	}
	if s.o.Metrics != nil && !s.o.HideMetrics {
		meta("GET /metrics", s.serveMetrics)
	}
	mux.Handle("GET /healthz", s.wrap(s.healthz)) // who is busy is healthy
	mux.Handle("GET /readyz", s.wrap(service.InTime(s.readyz)))
	if s.o.State != nil {
		mux.Handle("/state/{name}/{workspace}", s.wrap(s.state))
	}
	if s.o.Depot != nil {
		meta("POST /depot/sync", s.depotSync)
	}
	if len(s.o.GitHub) > 0 {
		meta("POST /hooks/github", s.githubHook)
	}
	if s.o.Embedded != nil {
		mux.Handle("/v2/", s.wrap(s.distribution))
	}
	meta("/", s.unknown)
	return strict(mux)
}

// screened is in front of all routes: no web page gets through.
func (s *server) screened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(service.NoSniff, "nosniff")
		if err := s.access.Screen(r); err != nil {
			s.wrap(func(http.ResponseWriter, *http.Request) error { return err }).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// strict answers 404 to paths that the multiplexer would redirect to a cleaned
// form: no client sends them, and a redirect would only hide the mistake.
func strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !cleanPath(r.URL.Path) {
			service.WriteError(w, r, http.StatusNotFound, "the path has an empty, relative or unprintable segment")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func cleanPath(path string) bool {
	if !strings.HasPrefix(path, "/") {
		return false
	}
	if path == "/" {
		return true
	}
	for _, c := range path {
		if c < 0x20 || c == 0x7f {
			return false
		}
	}
	for segment := range strings.SplitSeq(strings.TrimSuffix(path[1:], "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// wrap makes an http.Handler of h.
func (s *server) wrap(h service.Handler) http.Handler { return s.kit.Handle(h, s.writeError) }
