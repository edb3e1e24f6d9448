// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// Options are a [Front]'s parts, already opened. Client and at least one key are required.
type Options struct {
	registry.Options // of the protocols; Kit, Keys and Metrics are filled in

	Access    access.Policy     // access control; the zero value grants nothing
	Login     *access.Login     // `tofu login`; nil: off
	Keys      []keyring.Key     // sign and seal tokens and links; the first is used for new ones
	Sessions  *access.Sessions  // of browsers; nil: no login to the pages
	Proxies   []netip.Prefix    // networks whose X-Forwarded-For is trusted
	Local     bool              // the listener has a loopback address
	Transport http.RoundTripper // to issuers of tokens; nil: http.DefaultTransport

	Embedded   http.Handler   // the registry to serve under /v2/; nil: none
	CheckSpace func() error   // returns an error if the disk of Embedded is full; nil: not checked
	States     *states.States // shown on pages; states that are written are added to its list; nil: none
	// Stores opens a state, always the same store, which knows the locks that this process won:
	// /state/ and tfe.v2 are one. nil: states are not served.
	Stores func(ctx context.Context, name string) (*statebackend.Store, error)
	TFE    *TFEOptions  // of tfe.v2; nil: off
	Depot  http.Handler // handles POST /depot/sync, which runs the depot file now; nil: none

	// Start returns what the extension serves, see [Extension.Start]; nil: there is none.
	Start func(kit *service.Kit, modules *catalog.Catalog) (*Mounted, error)
	// Alone serves only the extension, and what operators need.
	Alone   bool
	RunOver func(run string) bool // reports whether a run is known to have ended; nil: unknown

	depots     *depotRunner     // the runner behind Depot; nil: none in this process
	claim      Claim            // of the extension
	portalKeys []keyring.Key    // keys of the sessions of portals
	rules      access.RulesFile // the rules of Access that come from a file
	// certificate and its key are the PEM files that are served; "": none, or self-signed.
	certificate, certificateKey string
	auditLog                    *auditlog.Log // of changes and decisions; nil: none is kept
	acts                        *acts         // of clients of the built-in registry
	MCP                         bool          // assistants are answered below /mcp
	Pages                       bool          // pages are served below /ui/
	off                         web.Parts     // parts of the pages that are off
	imageHosts                  []string      // other hosts whose images the pages show
	Version                     string        // of okara, which the pages show

	Metrics     *Metrics // nil: counted, but not served under /metrics
	HideMetrics bool     // /metrics has a listener of its own
}

// Front is everything on one port. It is safe for concurrent use.
type Front struct {
	http.Handler
	Protocols *registry.Handler // modules, providers and mirrors

	o       Options
	kit     *service.Kit
	keys    *keyring.Ring
	depot   *depot.Depot
	finder  *catalog.Finder
	uses    UsesService
	pages   http.Handler           // nil: off
	mounted *Mounted               // served by the extension
	states  *httpbackend.Server    // of /state/; nil: off
	tfe     http.Handler           // of /api/v2/; nil: off
	mover   *mover                 // of what decides about runs; nil: without tfe.v2
	exports *service.ClientLimiter // limits downloads of the audit log
	adding  []serviceRoute         // services that add to the discovery document
	ready   atomic.Bool            // the registry has answered once
	unready atomic.Pointer[string] // why it did not, at the last attempt
	closing atomic.Bool            // shutdown has begun
}

// New returns a front, or an error that names the wrong option. It makes no request.
func New(o Options) (*Front, error) {
	f, err := newFront(o)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	mux := f.kit.Mux()
	if !o.Alone {
		f.Protocols.AddRoutes(mux) // a second multiplexer would take a twentieth of a warm list
	}
	for _, s := range f.allServices() {
		if s.handler != nil {
			mux.Handle(s.route, s.handler)
		}
		if s.adds != nil {
			f.adding = append(f.adding, s)
		}
	}
	f.Handler = f.screenRequests(mux)
	return f, nil
}

func newFront(o Options) (*Front, error) {
	metrics := o.Metrics
	if metrics == nil {
		metrics = NewMetrics()
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.acts = cmp.Or(o.acts, newActs())
	keys, err := keyring.New(o.Keys)
	if err != nil {
		return nil, err
	}
	guard, err := o.guard(keys, metrics)
	if err != nil {
		return nil, err
	}
	kit := service.New(service.Options{
		Guard: guard, Answered: metrics.countAnswer, Logger: o.Logger, Hop: func(r *http.Request) string { return o.signAddress(r) },
	})
	o.Options.Kit = kit
	o.Options.Keys = keys
	o.Options.Metrics = metrics.protocols
	o.Options.Reached = o.reachedURL
	protocols, err := registry.New(o.Options)
	if err != nil {
		return nil, err
	}
	f := &Front{
		Protocols: protocols, o: o, kit: kit, mounted: &Mounted{}, keys: keys, exports: service.NewClientLimiter(maxExports), depot: depot.New(depot.Options{Client: o.Client, Layout: o.Layout}),
	}
	f.finder = catalog.NewFinder(protocols.Catalog(), o.claim.On)
	f.uses = UsesService{Catalog: protocols.Catalog(), Hostname: o.Hostname, Layout: o.Layout, Guard: kit.Guard}
	if o.States != nil && !o.Alone {
		f.uses.Uses = o.States.Uses()
	}
	if o.Start != nil {
		if f.mounted, err = o.Start(kit, protocols.Catalog()); err != nil {
			return nil, err
		}
	}
	f.uses.Instances = f.mounted.Uses
	if o.Stores != nil {
		f.states = httpbackend.New(httpbackend.Options{Open: o.Stores, Logger: o.Logger})
		f.tfe = f.newTFE()
	}
	if o.Pages {
		var doctor web.Doctor
		var admin web.Depot
		if o.Alone {
			o.States = nil // another server has their pages
		} else {
			findings := newDoctor(o, metrics)
			findings.beside = f.mounted.Findings
			doctor = findings
			if admin, err = newDepotAdmin(o, f.depot); err != nil {
				return nil, err
			}
		}
		shown := web.Options{
			Kit: kit, Catalog: protocols.Catalog(), Archives: protocols, States: o.shownStates(), Off: o.off, Finder: f.finder, Downloads: protocols.Downloads(), Registry: o.Modules.Registry, Hostname: o.Hostname, Version: o.Version, Replica: hostName(),
			Doctor: doctor, Depot: admin, Audit: o.auditLog, ImageHosts: o.imageHosts, Instances: f.mounted.Pages,
		}
		if f.uses.Uses != nil {
			shown.Uses = &f.uses
		}
		if f.mounted.RunPages != nil && shown.States != nil {
			shown.Runs = f.mounted.RunPages(shown.States)
		}
		if f.pages, err = web.New(shown); err == nil && f.mounted.Forward != nil {
			f.pages = f.mounted.Forward(f.pages)
		}
	}
	return f, err
}

// hostName returns the host name of this machine, "" if it has none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "" // the pages work without it
	}
	return name
}

// toPages redirects a browser to the pages. Other clients get 404.
func toPages(w http.ResponseWriter, r *http.Request) error {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return &service.Error{Status: http.StatusNotFound, Text: "not found"}
	}
	w.Header().Set("Location", "ui/")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// toRun redirects from the address that the tools print of a run to its page.
func toRun(w http.ResponseWriter, r *http.Request) error {
	part := strings.Split(r.PathValue("run"), ".")
	if len(part) != 3 || !strings.HasPrefix(part[0], "run-") {
		return &service.Error{Status: http.StatusNotFound, Text: "not found"}
	}
	to := []string{"../../../../ui/runs", r.PathValue("organization"), r.PathValue("workspace"), part[1] + "." + part[2]}
	for i := range to[1:] {
		to[i+1] = url.PathEscape(to[i+1])
	}
	w.Header().Set("Location", strings.Join(to, "/"))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// tokens redirects users whom a tool sent for a token to the page, or names the command. It ignores
// the query, which the tool controls.
func (f *Front) tokens(w http.ResponseWriter, _ *http.Request) error {
	if !f.o.Pages {
		return writeText(w, "The administrator of this server creates tokens with `okara admin token new`.\n"+
			"Paste yours where `tofu login` or `terraform login` waits for it.\n")
	}
	w.Header().Set("Location", "../../ui/me")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// guard returns the guard that decides about requests.
func (o Options) guard(keys *keyring.Ring, m *Metrics) (*access.Guard, error) {
	out := access.Options{
		Policy: o.Access, Login: o.Login, Keyring: keys, Sessions: o.Sessions, Names: []string{o.Hostname, o.PublicURL}, Proxies: o.Proxies,
		Audit: o.Audit, Decided: m.countDecision, Logger: o.Logger, Transport: o.Transport, Now: o.Now, RunOver: o.RunOver,
	}
	if o.PassThrough != nil {
		out.PassThrough = registry.PassesThrough
	}
	return access.New(out)
}

// Closing makes /readyz answer 503 and ends streams: clients go elsewhere. Other routes continue.
func (f *Front) Closing() {
	f.closing.Store(true)
	f.kit.Close()
}

// Run does the background work until ctx ends. It is called once per process.
func (f *Front) Run(ctx context.Context) {
	if f.o.Alone {
		return
	}
	var running sync.WaitGroup
	running.Go(func() { f.Protocols.Run(ctx) })
	running.Go(func() { f.finder.Run(ctx) })
	if f.uses.Uses != nil {
		running.Go(func() { f.uses.Uses.Run(ctx) })
	}
	if f.mover != nil {
		running.Go(func() { f.mover.run(ctx) })
	}
	if f.o.auditLog != nil {
		running.Go(func() { f.o.auditLog.Run(ctx) })
	}
	running.Wait()
}

// Finish completes pending work after the last answer and Run, in seconds, even if ctx ended.
func (f *Front) Finish(ctx context.Context) {
	if !f.o.Alone {
		f.Protocols.Finish(ctx)
	}
	f.o.acts.settleDeletions(true)
	if f.o.auditLog != nil {
		f.o.auditLog.Finish(ctx)
	}
}

var noSniff = []string{"nosniff"} // of all answers

// screenRequests precedes all routes. It refuses web pages' requests, and paths that the
// multiplexer would redirect cleaned: no client sends those.
func (f *Front) screenRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()[service.NoSniff] = noSniff
		if err := f.kit.Guard.Screen(r); err != nil {
			f.handler(true, func(http.ResponseWriter, *http.Request) error { return err }).ServeHTTP(w, r)
			return
		}
		if !service.CleanPath(r.URL.Path) {
			service.WriteError(w, r, http.StatusNotFound, "the path has an empty, relative or unprintable segment")
			return
		}
		next.ServeHTTP(w, r)
	})
}
