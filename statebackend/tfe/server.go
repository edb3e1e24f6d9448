// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
)

// Options configure a handler. All are required that do not say what nil or 0 means.
type Options struct {
	Kit  *service.Kit  // the common handling of requests; opens bodies
	Keys *keyring.Ring // signs the addresses of uploads

	// Open returns the store of a state NAME, always the same one, since it remembers the locks it
	// won. It must read strictly (statebackend.Options.StrictReads), with this handler's MaxState.
	// oci.ErrNotFound: no state can have that name.
	Open func(ctx context.Context, name string) (*statebackend.Store, error)
	// Allow decides about a request, before anything is looked up, and records that. Without
	// workspace it concerns anything in the organization, without that anything at all: then every
	// valid token may read, and one that may run something may run. Errors are [access.Refusal].
	Allow func(r *http.Request, action rights.Action, organization, workspace string) (access.Grant, error)
	// Right returns the right that Allow requires, for [access.Grant.May].
	Right func(action rights.Action, organization, workspace string) rights.Right
	// Organizations returns the configured names, and those with states, that a caller may see.
	Organizations func(ctx context.Context, g access.Grant) ([]string, error)
	// Renew makes the next call of Organizations look for new ones.
	Renew func()
	// Split tells how an organization's workspaces are stored. reserved: the NAMEs "ORGANIZATION.*"
	// are its workspaces and no organizations; fresh: each new workspace gets such a NAME.
	Split func(organization string) (reserved, fresh bool)
	// Mode returns the execution mode of new workspaces that do not set one; "": local.
	Mode func(organization string) string
	// Wrote is called with the NAME of each repository in which a state was stored or deleted. The
	// channel closes when other servers can list the organization, or never will; nil: no waiting.
	Wrote func(ctx context.Context, name string) <-chan struct{}
	// PublicURL returns this server's address for the client: "https://okara.example.com/base", no
	// slash at the end; "": unknown, and states come in the body that announces them.
	PublicURL func(r *http.Request) string

	Runs    Runs          // of workspaces of execution mode remote; nil: the tools run where they are started
	RunTime time.Duration // limit of a run

	// SnapshotInterval is how often the tools store a state while they apply; 0: only at the end.
	SnapshotInterval time.Duration
	MaxState         int64           // bounds a state in bytes
	Memory           int64           // bounds all states that are being received, in bytes
	Sealer           artifact.Sealer // seals variables; nil: there are no state keys, and no variable can be sensitive
	// Moved waits until what decides about an organization's runs is out of reach for writers of
	// states, or refuses; see [Move]. nil: nothing has to be moved.
	Moved func(ctx context.Context, organization string) error
	Now   func() time.Time
}

const (
	// requestTime bounds a request's work at the registry. The tools have no time-out.
	requestTime = 30 * time.Second
	// maxSpooled bounds the configurations that are being received, in bytes.
	maxSpooled = 2 << 30
)

// New returns the handler of /api/v2/. It sends no request.
func New(o Options) http.Handler {
	if o.Runs == nil {
		o.Mode = func(string) string { return "" }
	}
	return newTable(o).handler()
}

const prefix = "/api/v2/"

// newTable makes the handlers and their routes. HEAD works like GET, which changes nothing.
func newTable(o Options) table {
	sign := signer{o.Keys, o.Now, o.PublicURL}
	memory := newLimiter(o.Memory)
	last := &recent{kept: map[reader]dated{}}
	g := &gate{kit: o.Kit, ask: o.Allow, right: o.Right, split: o.Split, now: o.Now}
	st := &stores{gate: g, open: o.Open}
	f := &finder{gate: g, stores: st, list: o.Organizations, refresh: o.Renew, refs: map[string]workspaceRef{}, names: map[string]bool{}}
	b := &books{gate: g, stores: st, runs: o.Runs, sealer: o.Sealer, moved: o.Moved}
	g.finder = f
	docs := workspaceDocs{gate: g, finder: f, books: b}
	records := workspaceRecords{stores: st, books: b, recent: last, mode: o.Mode, wrote: o.Wrote}
	lock := locker{gate: g, stores: st, recent: last, signer: sign}
	write := stateWriter{gate: g, stores: st, locker: lock, runs: o.Runs, wrote: o.Wrote}
	out := outputRoutes{gate: g, stores: st, memory: memory}
	orgs := organizations{gate: g, list: o.Organizations, mode: o.Mode, operations: o.Runs != nil}
	configs := configurations{gate: g, books: b, signer: sign, spooled: newLimiter(maxSpooled)}
	sets := setRoutes{gate: g, finder: f, books: b, wrote: o.Wrote}

	t := table{gate: g, mux: o.Kit.Mux(), methods: map[string][]string{}, snapshots: o.SnapshotInterval}
	orgs.addRoutes(t)
	projects{gate: g, stores: st}.addRoutes(t)
	workspaces{gate: g, stores: st, docs: docs, recent: last, outputs: out}.addRoutes(t)
	workspaceWrites{gate: g, docs: docs, records: records, locker: lock}.addRoutes(t)
	tags{gate: g, stores: st, records: records}.addRoutes(t)
	variableRoutes{gate: g, finder: f, books: b, sets: sets}.addRoutes(t)
	sets.addRoutes(t)
	locks{gate: g, docs: docs, locker: lock, runs: o.Runs}.addRoutes(t)
	versions{gate: g, stores: st, signer: sign, outputs: out}.addRoutes(t)
	versionWrites{gate: g, signer: sign, writer: write, memory: memory, maxState: o.MaxState}.addRoutes(t)
	out.addRoutes(t)
	uploads{gate: g, signer: sign, writer: write, configurations: configs, memory: memory, duplicates: newLimiter(o.Memory), maxState: o.MaxState}.addRoutes(t)
	if o.Runs != nil {
		found := runReader{gate: g, runs: o.Runs}
		logs := phases{reader: found, signer: sign, time: o.RunTime}
		configs.addRoutes(t)
		runRoutes{gate: g, configurations: configs, reader: found, docs: docs, organizations: orgs, phases: logs}.addRoutes(t)
		logs.addRoutes(t)
	}
	return t
}

// table collects the routes, and the methods of each path.
type table struct {
	gate      *gate
	mux       *service.Mux
	methods   map[string][]string
	snapshots time.Duration // Options.SnapshotInterval
}

// addRoute adds a route whose work at the registry is bounded by requestTime.
func (t table) addRoute(method, path string, h service.Handler) {
	t.addLong(method, path, func(w http.ResponseWriter, r *http.Request) error {
		r, cancel := limitTime(r)
		defer cancel()
		return h(w, r)
	})
}

// addLong adds a route that sends or takes a state, which a slow client may do for longer.
func (t table) addLong(method, path string, h service.Handler) {
	t.mux.Handle(method+" "+prefix+path, t.gate.wrapErrors(h))
	t.methods[path] = append(t.methods[path], method)
	if method == http.MethodGet {
		t.methods[path] = append(t.methods[path], http.MethodHead)
	}
}

func (t table) handler() http.Handler {
	for path, methods := range t.methods {
		t.mux.Handle(prefix+path, t.gate.wrapErrors(wrongMethod(methods)))
	}
	unknown := t.gate.wrapErrors(func(http.ResponseWriter, *http.Request) error { return errAbsent("unknown path") })
	t.mux.Handle(prefix, unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeader(w.Header())
		if !isClean(r.URL.EscapedPath()) { // the mux would redirect, which changes a POST into a GET
			unknown.ServeHTTP(w, r)
			return
		}
		t.mux.ServeHTTP(w, r)
	})
}

// setHeader sets each answer's headers. The tools identify the API by the first, of any status.
func setHeader(h http.Header) {
	h.Set("TFP-API-Version", "2.6") // below 2.5 `cloud` stops
	h.Set("TFP-AppName", "Terraform Enterprise")
	h.Set("Cache-Control", "no-store")
	h.Set(service.NoSniff, "nosniff")
}

// isClean reports whether an escaped path has no "." or "..", and no empty segment but the last.
func isClean(path string) bool {
	rest, _ := strings.CutPrefix(path, "/")
	segments := strings.Split(rest, "/")
	for i, segment := range segments {
		s, err := url.PathUnescape(segment)
		dots := s == "." || s == ".."
		mayBeEmpty := i >= 2 && i == len(segments)-1
		if err != nil || dots || s == "" && !mayBeEmpty {
			return false
		}
	}
	return true
}

func wrongMethod(allowed []string) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Allow", strings.Join(slices.Sorted(slices.Values(allowed)), ", "))
		return newRefusal(http.StatusMethodNotAllowed, "method not allowed", "method %s is not allowed for this path", printableText(r.Method))
	}
}

// limitTime bounds the time at the registry. A change is completed, and recorded, if its client
// disconnects; but not a lock, which would be nobody's.
func limitTime(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx := r.Context()
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !strings.HasSuffix(r.URL.Path, "/actions/lock") {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	return r.WithContext(ctx), cancel
}

// gate decides about requests, reads their bodies and turns errors into answers.
type gate struct {
	kit   *service.Kit
	ask   func(r *http.Request, action rights.Action, organization, workspace string) (access.Grant, error) // Options.Allow
	right func(action rights.Action, organization, workspace string) rights.Right
	split func(organization string) (reserved, fresh bool)
	now   func() time.Time

	finder *finder // of the workspaces of short ids
}

// wrapErrors makes h's errors documents. [gate.allowRef] fills in the caller.
func (s *gate) wrapErrors(h service.Handler) http.Handler {
	return s.kit.Handle(func(w http.ResponseWriter, r *http.Request) error {
		return h(w, r.WithContext(statebackend.WithCaller(r.Context(), "", "")))
	}, s.writeError)
}

func (s *gate) mayAct(g access.Grant, action rights.Action, organization, workspace string) bool {
	return g.May(s.right(action, organization, workspace))
}

func (s *gate) mayAll(g access.Grant, action rights.Action, organization string) bool {
	right := s.right(action, organization, "")
	right.Address = strings.TrimSuffix(right.Address, "/")
	return g.May(right)
}

func (s *gate) mayChangeSets(g access.Grant, organization string) bool {
	return s.mayAll(g, rights.Write, organization) && s.mayAll(g, rights.Run, organization)
}

// allowRef decides about a workspaceRef before anything is looked up. Bad names are not found.
func (s *gate) allowRef(r *http.Request, action rights.Action, p workspaceRef) (access.Grant, error) {
	noOrganization := p.organization != "" && (!validOrganization(p.organization) || s.isReserved(p.organization))
	noWorkspace := p.workspace != "" && !validWorkspace(p.workspace)
	if noOrganization || noWorkspace {
		return access.Grant{}, errAbsent("not a valid name of an organization or workspace")
	}
	manages := action == manage
	if manages {
		action = rights.Write
	}
	g, err := s.ask(r, action, p.organization, p.workspace)
	if err == nil {
		statebackend.SetCaller(r.Context(), g.Identity(), g.Name())
	}
	if err == nil && manages && g.Mode == modeOfRuns {
		return access.Grant{}, newRefusal(http.StatusForbidden, "forbidden", "a run may write its state, and nothing else of its workspace")
	}
	return g, err
}

const (
	// manage is [rights.Write] for changes that a run must not make to its own workspace.
	manage rights.Action = "manage"
	// modeOfRuns is the mode of callers that are runs.
	modeOfRuns = "run"
)

// isReserved reports whether a NAME is that of a split organization's workspace, and no address.
func (s *gate) isReserved(name string) bool {
	for i, c := range name {
		if c != '.' {
			continue
		}
		if reserved, _ := s.split(name[:i]); reserved {
			return true
		}
	}
	return false
}

// handleOne makes a handler that calls do with what resolve finds and allows.
func handleOne[T any](resolve func(*http.Request, rights.Action) (T, error), action rights.Action, do func(http.ResponseWriter, *http.Request, T) error) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		found, err := resolve(r, action)
		if err != nil {
			return err
		}
		return do(w, r, found)
	}
}

// onWorkspace adds a route with a workspace in its path, for callers with the right there.
func (t table) onWorkspace(method, path string, action rights.Action, h workspaceHandler) {
	t.addRoute(method, path, t.gate.workspaceHandler(action, h))
}

func (t table) onOrganization(method, path string, action rights.Action, h func(http.ResponseWriter, *http.Request, string, access.Grant) error) {
	t.addRoute(method, path, func(w http.ResponseWriter, r *http.Request) error {
		name, g, err := t.gate.allowOrganization(r, action)
		if err != nil {
			return err
		}
		return h(w, r, name, g)
	})
}

// workspaceHandler handles requests for a workspace, with the command ID in its id.
type workspaceHandler func(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error

func (s *gate) workspaceHandler(action rights.Action, do workspaceHandler) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, h, err := s.namedWorkspace(r)
		if err != nil {
			return err
		}
		g, err := s.allowRef(r, action, p)
		if err != nil {
			return err
		}
		return do(w, r, p, h, g)
	}
}
