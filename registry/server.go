// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
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

// Options is everything that the protocols need. Client, Kit and Keys are
// required.
type Options struct {
	Kit      *service.Kit    // decides about requests, and what is around each of them
	Keys     *access.Keyring // signs archive links
	Client   *oci.Client     // the registry, with the front-end's own credentials
	Layout   addr.Layout     // where modules and providers are in it
	Beside   bool            // the registry is served beside the protocols, under /v2/ of the same host
	Hostname string          // name under which /mirror/ serves own providers; empty: the one the client used

	Require  map[string]depot.VerifyOptions // by kind: what a module, provider or mirror version must fulfil to be served
	Revoked  catalog.RevokedKeys            // OpenPGP keys that nothing is served with any more
	Archives Archives                       // how archives are linked and delivered
	Modules  Modules                        // how module downloads are answered
	TagTTL   time.Duration                  // how long the version tag of a module is trusted; 0: 30 s
	// DeniedMeansMissing answers 404 where the registry refuses a read: some
	// registries hide missing repositories that way, and clients go on to their
	// next source only at 404.
	DeniedMeansMissing bool

	// PullThrough says which providers are fetched from their origin when they
	// are asked for. The first rule that matches decides; nil: none is.
	PullThrough []PullRule

	// Files opens a blob of a registry whose files are on this machine, by
	// repository and SHA-256 in hex; nil: they are not.
	Files func(repository, sha256hex string) (*os.File, error)
	Blobs blobcache.Options // where archives of any other registry are kept; the zero value: nowhere

	// GitHub are the owners whose webhooks POST /hooks/github takes; none: no
	// such route.
	GitHub []GitHub

	// PassThrough makes a client that uses a caller's own registry credential,
	// which is then what a token is that has no other meaning on the routes that
	// [PassesThrough] names; nil: such tokens are refused.
	PassThrough func(oci.Credential) (*oci.Client, error)

	Metrics *Metrics         // nil: nobody reads them
	Audit   *slog.Logger     // one record per change that no caller makes; nil: none
	Logger  *slog.Logger     // what an answer does not tell; nil: none
	Now     func() time.Time // nil: time.Now
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

	onBehalf bool // every caller brings a credential
}

// Handler is the front-end. It is safe for concurrent use.
type Handler struct {
	http.Handler
	s *server
}

// Catalog is what is there, with the front-end's own credentials.
func (h *Handler) Catalog() *catalog.Catalog { return h.s.catalog }

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
	return &Handler{Handler: h, s: s}, nil
}

func newServer(o Options) (*server, error) {
	if o.Client == nil || o.Kit == nil || o.Keys == nil {
		return nil, errors.New("no registry client, kit or keys")
	}
	if err := o.Layout.Validate(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Archives = o.Archives.withDefaults()
	if err := errors.Join(o.Modules.validate(), o.Archives.validate(), validateGitHub(o.GitHub)); err != nil {
		return nil, err
	}
	if len(o.PullThrough) > 0 && !pullable(o.Require[addr.KindMirror]) {
		return nil, errors.New("pull-through answers for a version before anybody could sign or scan it; require nothing but openpgp of mirrored providers")
	}
	for kind, require := range o.Require {
		if err := catalog.ValidateRequire(kind, require); err != nil {
			return nil, err
		}
	}
	metrics := o.Metrics
	if metrics == nil {
		metrics = NewMetrics(nil)
	}
	files, err := blobcache.New(o.Blobs, o.Logger, func(result string) { metrics.looked("file", result) })
	if err != nil {
		return nil, err
	}
	s := &server{
		metrics: metrics,
		access:  o.Kit.Guard,
		kit:     o.Kit,
		o:       o, log: o.Logger, now: o.Now, keys: o.Keys, links: &links{keys: o.Keys, ttl: o.Archives.TTL, now: o.Now},
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
		return nil, err
	}
	s.queue = jobs.New(jobs.Options{Repo: queue, Handlers: handlers, Counted: metrics.queued, Logger: o.Logger, Now: o.Now})
	if s.counts, err = newCounts(o); err != nil {
		return nil, err
	}
	return s, nil
}

// routes is the whole surface of the front-end. HEAD works wherever GET does.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	meta := func(pattern string, h service.Handler) { mux.Handle(pattern, s.wrap(s.kit.Limit(h))) }

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

	if len(s.o.GitHub) > 0 {
		meta("POST /hooks/github", s.githubHook)
	}
	meta("/", s.unknown)
	return mux
}

// wrap makes an http.Handler of h.
func (s *server) wrap(h service.Handler) http.Handler { return s.kit.Handle(h, s.writeError) }
