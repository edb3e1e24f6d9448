// SPDX-License-Identifier: Apache-2.0

package server

import (
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
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// Options are the parts of a [Front], opened already. Client and at least one key
// are required.
type Options struct {
	registry.Options // of the protocols; Kit, Keys, Metrics and Beside are filled in

	Access    access.Policy     // who may do what; the zero value allows nobody anything
	Login     *access.Login     // `tofu login`, nil: none
	Keys      []access.Key      // sign and seal what is given away; the first is used for what is new
	Sessions  *access.Sessions  // of browsers; nil: nobody logs in to the pages
	Proxies   []netip.Prefix    // whose X-Forwarded-For is believed
	Transport http.RoundTripper // to issuers of tokens; nil: http.DefaultTransport
	BasePath  string            // path below which a proxy serves okara, for the discovery document

	Embedded   http.Handler   // the registry to serve under /v2/, nil: none
	CheckSpace func() error   // says that the disk of Embedded is full; nil: unknown
	States     *states.States // that pages show, and where those that are written are listed; nil: none
	// Stores opens a state by its name, always the same store, since that remembers
	// the locks that this process won: /state/ and tfe.v2 are two doors to one state.
	// nil: there are no states.
	Stores func(ctx context.Context, name string) (*statebackend.Store, error)
	TFE    *TFEOptions  // of tfe.v2; nil: it is off
	Depot  http.Handler // asked by POST /depot/sync to run the depot file now, nil: none

	// Start returns what the server has beside the core, once there is what that needs.
	// Nil: nothing.
	Start func(kit *service.Kit, modules *catalog.Catalog) (*Mounted, error)
	// Alone serves nothing but what that has, and what operators need.
	Alone   bool
	RunOver func(run string) bool // reports whether a run is known to have ended; nil: nobody knows

	depots     *depotRunner     // what Depot asks; nil: none in this process
	claim      Claim            // of the extension
	portalKeys []access.Key     // of the sessions of portals
	rules      access.RulesFile // that Access has from a file
	// certificate and its key are the PEM files that are served; "": none, or one made here.
	certificate, certificateKey string
	auditLog                    *auditlog.Log // of changes and decisions; nil: none is kept
	Pages                       bool          // below /ui/
	off                         web.Parts     // parts of the pages that are not there
	imageHosts                  []string      // other hosts whose images they show
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
	keys    *access.Keyring
	depot   *depot.Depot
	finder  *catalog.Finder
	pages   http.Handler           // nil: there are none
	mounted *Mounted               // beside the core
	states  *httpbackend.Server    // of /state/; nil: there is none
	tfe     http.Handler           // of /api/v2/; nil: there is none
	exports *service.Limiter       // of the audit
	adding  []serviceRoute         // those that add to the discovery document
	ready   atomic.Bool            // the registry has answered once
	unready atomic.Pointer[string] // why it did not, when it was last asked
	closing atomic.Bool            // shutdown has begun
}

// New returns a front, or an error that names the option at fault. It makes no
// request.
func New(o Options) (*Front, error) {
	f, err := newFront(o)
	if err != nil {
		return nil, fmt.Errorf("front-end: %w", err)
	}
	mux := f.kit.Mux()
	for _, s := range f.services() {
		if s.handler != nil {
			mux.Handle(s.route, s.handler)
		}
		if s.adds != nil {
			f.adding = append(f.adding, s)
		}
	}
	f.Handler = f.screened(mux)
	return f, nil
}

func newFront(o Options) (*Front, error) {
	metrics := o.Metrics
	if metrics == nil {
		metrics = NewMetrics()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	keys, err := access.NewKeyring(o.Keys)
	if err != nil {
		return nil, err
	}
	guard, err := o.guard(keys, metrics)
	if err != nil {
		return nil, err
	}
	kit := service.New(service.Options{Guard: guard, Answered: metrics.answered, Logger: o.Logger})
	o.Options.Kit = kit
	o.Options.Keys = keys
	o.Options.Metrics = metrics.protocols
	o.Options.Beside = o.Embedded != nil
	protocols, err := registry.New(o.Options)
	if err != nil {
		return nil, err
	}
	f := &Front{
		Protocols: protocols, o: o, kit: kit, mounted: &Mounted{}, keys: keys, exports: service.NewLimiter(maxExports), depot: depot.New(depot.Options{Client: o.Client, Layout: o.Layout}),
	}
	f.finder = catalog.NewFinder(protocols.Catalog(), o.claim.On)
	if o.Start != nil {
		if f.mounted, err = o.Start(kit, protocols.Catalog()); err != nil {
			return nil, err
		}
	}
	if o.Stores != nil {
		f.states = httpbackend.New(httpbackend.Options{Open: o.Stores, Logger: o.Logger})
		if f.tfe, err = f.newTFE(); err != nil {
			return nil, err
		}
	}
	if o.Pages {
		var doctor web.Doctor
		var admin web.Depot
		if o.Alone {
			o.States = nil // their pages are another server's
		} else {
			findings := newDoctor(o, metrics)
			findings.beside = f.mounted.Findings
			doctor = findings
			if admin, err = newDepotAdmin(o, f.depot); err != nil {
				return nil, err
			}
		}
		shown := web.Options{
			Kit: kit, Catalog: protocols.Catalog(), Archives: protocols, States: o.shownStates(), Off: o.off, Finder: f.finder, Downloads: protocols.Downloads(), Registry: o.Modules.Registry, Hostname: o.Hostname, Version: o.Version, Replica: machine(),
			Doctor: doctor, Depot: admin, Audit: o.auditLog, ImageHosts: o.imageHosts, Instances: f.mounted.Pages,
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

// machine is the name of the one that this process runs on, "" where it has none.
func machine() string {
	name, err := os.Hostname()
	if err != nil {
		return "" // the pages do without it
	}
	return name
}

// toPages leads a browser to the pages. Other clients find nothing here.
func toPages(w http.ResponseWriter, r *http.Request) error {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return &service.Error{Status: http.StatusNotFound, Text: "not found"}
	}
	w.Header().Set("Location", "ui/")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// toRun leads from the address that the tools print of a run to its page.
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

// tokens says where people get a token, to whom a tool has sent here for one. What
// else the tool says in the address is nobody's business: it is not followed.
func (f *Front) tokens(w http.ResponseWriter, _ *http.Request) error {
	if !f.o.Pages {
		return say(w, "The administrator of this server makes tokens with `okara admin token new`.\n"+
			"Paste yours where `tofu login` or `terraform login` waits for it.\n")
	}
	w.Header().Set("Location", "../../ui/me")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// guard returns what decides about requests.
func (o Options) guard(keys *access.Keyring, m *Metrics) (*access.Guard, error) {
	out := access.Options{
		Policy: o.Access, Login: o.Login, Keyring: keys, Sessions: o.Sessions, Names: []string{o.Hostname, o.PublicURL}, Proxies: o.Proxies,
		Audit: o.Audit, Decided: m.decided, Logger: o.Logger, Transport: o.Transport, Now: o.Now, RunOver: o.RunOver,
	}
	if o.PassThrough != nil {
		out.PassThrough = registry.PassesThrough
	}
	return access.New(out)
}

// Closing makes /readyz answer 503, so that load balancers look elsewhere, and ends
// streams, whose clients come again there. All other routes go on.
func (f *Front) Closing() {
	f.closing.Store(true)
	f.kit.Close()
}

// Run does the work that no request waits for, until ctx ends. One process
// calls it once.
func (f *Front) Run(ctx context.Context) {
	if f.o.Alone {
		return
	}
	var running sync.WaitGroup
	running.Go(func() { f.Protocols.Run(ctx) })
	running.Go(func() { f.finder.Run(ctx) })
	if f.o.auditLog != nil {
		running.Go(func() { f.o.auditLog.Run(ctx) })
	}
	running.Wait()
}

// Finish does what is left when the last request has been answered and Run has
// returned. It takes a few seconds at most, whether ctx has ended or not.
func (f *Front) Finish(ctx context.Context) {
	if !f.o.Alone {
		f.Protocols.Finish(ctx)
	}
	if f.o.auditLog != nil {
		f.o.auditLog.Finish(ctx)
	}
}

// screened is in front of all routes: no web page gets through, and no path that
// the multiplexer would redirect to a cleaned form. No client sends those, and a
// redirect would only hide the mistake.
func (f *Front) screened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(service.NoSniff, "nosniff")
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
