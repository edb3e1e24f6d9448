// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

// Options configures the protocols. Client, Kit and Keys are required.
type Options struct {
	Kit      *service.Kit  // authorizes requests and wraps their handlers
	Keys     *keyring.Ring // signs archive links
	Client   *oci.Client   // the registry, with the front-end's own credentials
	Layout   addr.Layout   // layout of modules and providers in the registry
	Hostname string        // host name under which /mirror/ serves own providers; empty: the one that the client used

	// PublicURL is the URL of the server for clients. Requests to it get absolute addresses, others
	// relative ones; "": Reached decides. If anonymous callers may write, the server answers only
	// to its host, Hostname and loopback names.
	PublicURL string
	BasePath  string // path below which a proxy serves the server; "": the root of its host

	// Reached returns the URL by which a client reached the server, without a slash at its end; "":
	// unknown, and addresses in answers are relative. nil: never.
	Reached func(*http.Request) string

	Require  map[string]trust.Policy // by kind: what a module, provider or mirror version must fulfil to be served
	Revoked  catalog.RevokedKeys     // OpenPGP keys that are no longer accepted
	Archives Archives                // how archives are linked and delivered
	Modules  Modules                 // how module downloads are answered
	TagTTL   time.Duration           // how long the version tag of a module is trusted; 0: 30 s
	// DeniedMeansMissing answers 404 if the registry refuses a read: some hide missing repositories
	// that way, and clients try their next source only after a 404.
	DeniedMeansMissing bool

	// PullThrough are the providers that are fetched on request. The first matching rule applies.
	PullThrough []PullRule

	// Files opens a blob of a registry on this machine, by repository and hex SHA-256; or nil.
	Files func(repository, sha256hex string) (*os.File, error)
	Blobs cache.BlobOptions // cache for archives of any other registry; the zero value: no cache

	// GitHub lists the owners whose webhooks POST /hooks/github accepts; none: no such route.
	GitHub []GitHub

	// PassThrough creates a client with a caller's own registry credential: a token without any
	// other meaning on the routes that [PassesThrough] names; nil: such tokens are refused.
	PassThrough func(oci.Credential) (*oci.Client, error)

	Metrics *Metrics         // nil: not exported
	Audit   *slog.Logger     // one record per change that was not made by a caller; nil: none
	Logger  *slog.Logger     // details that answers omit; nil: none
	Now     func() time.Time // nil: time.Now
}

// server answers all routes. Everything but the caches is read-only.
type server struct {
	o       Options
	kit     *service.Kit
	metrics *Metrics
	views   *views
	queue   *jobs.Queue
	counts  *downloads.Counter

	modules    *modules
	providers  *providers
	contents   *contents
	content    *content
	archives   *archives
	publishing *publishing
	hooks      *hooks
	pull       *pullThrough // nil: no pull-through
}

// Handler is the front-end. It is safe for concurrent use.
type Handler struct {
	http.Handler
	s *server
}

// Catalog returns the catalog of the front-end's own credentials.
func (h *Handler) Catalog() *catalog.Catalog { return h.s.views.own.catalog }

// Downloads returns the download counts.
func (h *Handler) Downloads() *downloads.Counter { return h.s.counts }

// Run does the background work until ctx ends. Each process calls it once.
func (h *Handler) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { h.s.queue.Run(ctx) })
	running.Go(func() { h.s.counts.Run(ctx) })
	running.Wait()
}

// Finish writes the remaining counts after the last answer and the end of Run. It takes a few
// seconds at most, whether or not ctx has ended.
func (h *Handler) Finish(ctx context.Context) { h.s.counts.Finish(ctx) }

// New returns the front-end, or an error that names the invalid option. It sends no request.
func New(o Options) (*Handler, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	return &Handler{Handler: s.addRoutes(s.kit.Mux()), s: s}, nil
}

func newServer(o Options) (*server, error) {
	o, err := o.checkedOptions()
	if err != nil {
		return nil, err
	}
	s := &server{o: o, kit: o.Kit, metrics: o.Metrics}
	if s.metrics == nil {
		s.metrics = NewMetrics(nil)
	}
	own := o.newView(o.Client, s.metrics, o.newLinks(o.Archives.TTL))
	s.views = &views{own: own, o: o, metrics: s.metrics, byCaller: map[oci.Credential]callerView{}}
	s.pull = newPullThrough(o, own, s.metrics)
	own.pull = s.pull
	queue, err := o.Client.Repo(o.Layout.QueueRepo())
	if err != nil {
		return nil, err
	}
	s.counts = downloads.New(downloads.Options{Repo: queue, Logger: o.Logger, Now: o.Now})
	files, err := cache.NewBlobs(o.Blobs, o.Logger, func(result string) { s.metrics.countLookup("file", result) })
	if err != nil {
		return nil, err
	}
	s.newHandlers(own, files)
	return s, s.openQueue()
}

func (s *server) newHandlers(own *view, files *cache.Blobs) {
	o := s.o
	_, verified := o.Require[addr.KindModule] // with a policy, only modules that fulfil it are served
	s.modules = &modules{answer: o.Modules, verified: verified, counts: s.counts}
	s.providers = &providers{now: o.Now, counts: s.counts}
	s.contents = &contents{layout: o.Layout, guard: s.kit.Guard}
	s.archives = &archives{
		o: o.Archives, layout: o.Layout, kit: s.kit, views: s.views, local: o.Files, files: files, limiter: service.NewClientLimiter(maxStreams),
		stall: stallTimeout, counts: s.counts, metrics: s.metrics, log: o.Logger, now: o.Now,
	}
	s.publishing = &publishing{layout: o.Layout, kit: s.kit, unpack: service.NewClientLimiter(maxUnpacked), keys: o.Keys, metrics: s.metrics, log: o.Logger, now: o.Now}
	s.content = &content{layout: o.Layout, archives: s.archives}
	s.hooks = &hooks{
		owners: o.GitHub, kit: s.kit, small: service.NewClientLimiter(maxHooks), large: service.NewClientLimiter(maxLargeHooks),
		layout: o.Layout, catalog: own.catalog, depot: own.depot, metrics: s.metrics, audit: o.Audit, log: o.Logger,
	}
}

func (s *server) openQueue() error {
	repo, err := s.o.Client.Repo(s.o.Layout.QueueRepo())
	if err != nil {
		return err
	}
	handlers := map[string]jobs.Handler{}
	if len(s.o.GitHub) > 0 {
		handlers[jobGitHub] = s.hooks.runHookJob
	}
	if s.pull != nil {
		handlers[jobPull] = s.pull.runPullJob
	}
	s.queue = jobs.New(jobs.Options{Repo: repo, Handlers: handlers, Counted: s.metrics.setQueueGauges, Logger: s.o.Logger, Now: s.o.Now})
	s.hooks.queue = s.queue
	if s.pull != nil {
		s.pull.queue = s.queue
	}
	return nil
}

// checkedOptions returns the options with defaults, or an error that names the invalid option.
func (o Options) checkedOptions() (Options, error) {
	if o.Client == nil || o.Kit == nil || o.Keys == nil {
		return o, errors.New("no registry client, kit or keys")
	}
	if err := o.Layout.Validate(); err != nil {
		return o, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Archives = o.Archives.withDefaults()
	if err := errors.Join(o.Modules.validate(), o.Archives.validate(), validateGitHub(o.GitHub)); err != nil {
		return o, err
	}
	if len(o.PullThrough) > 0 && !mayPullThrough(o.Require[addr.KindMirror]) {
		return o, errors.New("pull-through serves a version before it can be signed or scanned; for mirrored providers require only openpgp")
	}
	for kind, require := range o.Require {
		if err := catalog.ValidateRequire(kind, require); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (s *server) wrapHandler(h service.Handler) http.Handler { return s.kit.Handle(h, s.writeError) }
