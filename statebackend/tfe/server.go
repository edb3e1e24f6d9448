// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"errors"
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
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// Options configure a handler. Kit, Keys, Open, Allow, Right and PublicURL are required.
type Options struct {
	Kit  *service.Kit  // the common handling of requests; opens bodies
	Keys *keyring.Ring // signs the addresses of uploads

	// Open returns the store of a state NAME, the same one at each call, since a
	// store remembers the locks that its process won. It must read strictly
	// (statebackend.Options.StrictReads), and have the same MaxState as this handler.
	// oci.ErrNotFound: no state can have that name.
	Open func(ctx context.Context, name string) (*statebackend.Store, error)
	// Allow decides about a request, before anything is looked up, and records
	// the decision. Without workspace the request concerns anything in the
	// organization, and without organization anything at all: then every valid token
	// may read, and a token that may run something may run. An error is an
	// [access.Refusal].
	Allow func(r *http.Request, action rights.Action, organization, workspace string) (access.Grant, error)
	// Right returns the right that Allow requires, for [access.Grant.May]: lists show
	// what the caller may read.
	Right func(action rights.Action, organization, workspace string) rights.Right
	// Organizations returns the names that a caller may see: those of the
	// configuration, and those for which states were written. nil: none are listed.
	Organizations func(ctx context.Context, g access.Grant) ([]string, error)
	// Renew makes the next call of Organizations look for new ones; nil: not
	// needed.
	Renew func()
	// Split tells how the workspaces of an organization are stored. reserved: the
	// NAMEs "ORGANIZATION.*" belong to its workspaces and are not organizations;
	// fresh: each new workspace gets such a NAME. nil: no organization is split.
	Split func(organization string) (reserved, fresh bool)
	// Mode returns the execution mode of new workspaces that do not set one; nil or
	// "": local.
	Mode func(organization string) string
	// Wrote is called with the NAME of each repository in which a state was stored or
	// deleted. The returned channel is closed once other servers can find the
	// organization in their lists, or never will by this call. nil: not called.
	Wrote func(ctx context.Context, name string) <-chan struct{}
	// PublicURL returns the address by which the client reaches this server, such as
	// "https://okara.example.com/base", without a slash at the end. "": not known,
	// and then states come in the body of the request that announces them.
	PublicURL func(r *http.Request) string

	// Runs executes the runs of workspaces of execution mode remote; nil: not
	// supported, and the tools run where they are started.
	Runs Runs
	// RunTime is the time limit of a run.
	RunTime time.Duration

	// SnapshotInterval is how often the tools store a state while they apply; 0:
	// only when they are done.
	SnapshotInterval time.Duration
	MaxState         int64 // bounds a state in bytes; 0: 512 MiB
	Memory           int64 // bounds all states that are being received, in bytes; 0: 1 GiB
	// Sealer seals variables; nil: there are no state keys, and no variable can be sensitive.
	Sealer artifact.Sealer
	// Moved waits until what decides about runs is where writers of states cannot push; see
	// [Move]. nil: nothing has to be moved.
	Moved func(ctx context.Context) error
	Now   func() time.Time // nil: time.Now
}

const (
	defaultMaxState = 512 << 20
	defaultMemory   = 1 << 30
	// requestTime bounds the work of a request at the registry. The tools have no
	// time-out.
	requestTime = 30 * time.Second
	// maxSpooled bounds the configurations that are being received, in bytes.
	maxSpooled = 2 << 30
)

// common is what handlers of all subjects need: the rights of a request, its body, and
// the stores.
type common struct {
	o   Options
	kit *service.Kit
	now func() time.Time
}

// server answers all routes. Between requests it keeps only bounded caches and limits.
type server struct {
	*common
	signer     signer // of uploads
	recent     *recent
	short      *finder
	known      variables.Known          // of all organizations
	limiter    *service.Limiter[string] // of received states
	duplicates *service.Limiter[string] // of the duplicates beside them, which are dropped
	spooled    *service.Limiter[string] // on disk: of received configurations
}

// The handlers of the server, by subject.
type (
	organizations  struct{ *common }
	workspaces     struct{ *server }
	tags           struct{ *server }
	locks          struct{ *server }
	versions       struct{ *server }
	outputRoutes   struct{ *server }
	uploads        struct{ *server }
	configurations struct{ *server }
	runs           struct{ *server }
	logs           struct{ *server }
)

func (s *server) organizations() organizations   { return organizations{s.common} }
func (s *server) workspaces() workspaces         { return workspaces{s} }
func (s *server) tags() tags                     { return tags{s} }
func (s *server) locks() locks                   { return locks{s} }
func (s *server) versions() versions             { return versions{s} }
func (s *server) outputRoutes() outputRoutes     { return outputRoutes{s} }
func (s *server) uploads() uploads               { return uploads{s} }
func (s *server) configurations() configurations { return configurations{s} }
func (s *server) runs() runs                     { return runs{s} }
func (s *server) logs() logs                     { return logs{s} }
func (s *server) variableRoutes() variableRoutes { return variableRoutes{s} }

// New returns the handler of /api/v2/, or an error that names the invalid option.
// It sends no request.
func New(o Options) (http.Handler, error) {
	stores := o.Keys != nil && o.Open != nil
	checked := o.Allow != nil && o.Right != nil
	if o.Kit == nil || !stores || !checked || o.PublicURL == nil {
		return nil, errors.New("no kit, keys, stores, rights or address")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxState == 0 {
		o.MaxState = defaultMaxState
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Split == nil {
		o.Split = func(string) (reserved, fresh bool) { return false, false }
	}
	if o.Mode == nil {
		o.Mode = func(string) string { return "" }
	}
	if o.Wrote == nil {
		o.Wrote = func(context.Context, string) <-chan struct{} { return nil }
	}
	if o.Renew == nil {
		o.Renew = func() {}
	}
	if o.Organizations == nil {
		o.Organizations = func(context.Context, access.Grant) ([]string, error) { return nil, nil }
	}
	s := &server{
		common: &common{o: o, kit: o.Kit, now: o.Now}, signer: signer{o.Keys, o.Now}, recent: &recent{kept: map[reader]dated{}},
		limiter: newLimiter(o.Memory), duplicates: newLimiter(o.Memory), spooled: newLimiter(maxSpooled),
	}
	s.short = &finder{s: s, refs: map[string]workspaceRef{}, names: map[string]bool{}}
	return s.routes(), nil
}

// prefix is the path of all routes.
const prefix = "/api/v2/"

// routes returns all routes. HEAD works wherever GET does, and no GET changes
// anything.
func (s *server) routes() http.Handler {
	t := table{s: s, mux: s.kit.Mux(), methods: map[string][]string{}}

	p := projects{s.common}
	t.add("GET", "ping", s.organizations().ping)
	t.add("GET", "account/details", s.organizations().account)

	t.add("GET", "organizations", s.organizations().listOrganizations)
	t.add("GET", "organizations/{organization}", s.organizations().showOrganization)
	t.add("GET", "organizations/{organization}/entitlement-set", s.organizations().entitlements)
	t.add("GET", "organizations/{organization}/projects", p.list)
	t.add("POST", "organizations/{organization}/projects", p.create)
	t.add("GET", "projects/{id}", p.show)
	t.add("PATCH", "projects/{id}", p.update)
	t.add("DELETE", "projects/{id}", p.delete)

	t.add("GET", "organizations/{organization}/workspaces", s.workspaces().listWorkspaces)
	t.add("POST", "organizations/{organization}/workspaces", s.workspaces().createWorkspace)
	for _, at := range []string{"organizations/{organization}/workspaces/{workspace}", "workspaces/{id}"} {
		t.add("GET", at, s.workspaces().showWorkspace)
		t.add("PATCH", at, s.workspaces().updateWorkspace)
		t.add("DELETE", at, s.workspaces().deleteWorkspace)
		t.add("POST", at+"/actions/safe-delete", s.workspaces().safeDelete)
	}
	t.add("POST", "workspaces/{id}/relationships/tags", s.tags().addTags)
	t.add("DELETE", "workspaces/{id}/relationships/tags", s.tags().removeTags)
	t.add("GET", "workspaces/{id}/tag-bindings", s.tags().listTagBindings)
	t.add("PATCH", "workspaces/{id}/tag-bindings", s.tags().addTagBindings)
	t.add("GET", "workspaces/{id}/effective-tag-bindings", s.tags().listTagBindings)
	addVariables(t, s.variableRoutes())

	t.add("POST", "workspaces/{id}/actions/lock", s.locks().lock)
	t.add("POST", "workspaces/{id}/actions/unlock", s.locks().unlock)
	t.add("POST", "workspaces/{id}/actions/force-unlock", s.locks().forceUnlock)

	t.add("GET", "workspaces/{id}/current-state-version", s.versions().currentVersion)
	t.add("GET", "workspaces/{id}/current-state-version-outputs", s.outputRoutes().currentOutputs)
	t.addLong("POST", "workspaces/{id}/state-versions", s.versions().createVersion)
	t.add("PATCH", "workspaces/{id}/state-versions", s.versions().rollback)
	t.add("GET", "state-versions", s.versions().listVersions)
	t.add("GET", "state-versions/{id}", s.versions().showVersion)
	t.addLong("GET", "state-versions/{id}/download", s.versions().downloadVersion)
	t.add("GET", "state-versions/{id}/outputs", s.outputRoutes().versionOutputs)
	t.add("GET", "state-version-outputs/{id}", s.outputRoutes().showOutput)
	t.addLong("PUT", "uploads/{token}", s.uploads().upload)
	if s.o.Runs != nil {
		s.addRuns(t)
	}
	return t.handler()
}

// addRuns adds the routes of runs.
func (s *server) addRuns(t table) {
	t.add("POST", "workspaces/{id}/configuration-versions", s.configurations().createConfiguration)
	t.add("GET", "configuration-versions/{id}", s.configurations().showConfiguration)
	t.add("POST", "runs", s.runs().createRun)
	t.add("GET", "runs/{id}", s.runs().showRun)
	t.add("GET", "runs/{id}/run-events", s.runs().listRunEvents)
	for _, action := range []RunAction{RunConfirm, RunDiscard, RunCancel, RunForceCancel} {
		t.add("POST", "runs/{id}/actions/"+string(action), s.runs().act(action))
	}
	t.add("GET", "plans/{id}", s.logs().showPhase(PhasePlan))
	t.add("GET", "plans/{id}/json-output", planDocs{s}.whole)
	t.add("GET", "plans/{id}/json-output-redacted", planDocs{s}.redacted)
	t.add("GET", "applies/{id}", s.logs().showPhase(PhaseApply))
	t.add("GET", "logs/{token}", s.logs().readLog)
	t.add("GET", "workspaces/{id}/runs", s.runs().listRuns)
	t.add("GET", "organizations/{organization}/runs/queue", s.runs().runQueue)
	t.add("GET", "organizations/{organization}/capacity", s.runs().capacity)
}

// table collects the routes, and the methods of each path.
type table struct {
	s       *server
	mux     *service.Mux
	methods map[string][]string
}

// add adds a route whose work at the registry is bounded by requestTime.
func (t table) add(method, path string, h service.Handler) {
	t.addLong(method, path, func(w http.ResponseWriter, r *http.Request) error {
		r, cancel := within(r)
		defer cancel()
		return h(w, r)
	})
}

// addLong adds a route that sends or takes a state, which a slow client may do for longer.
func (t table) addLong(method, path string, h service.Handler) {
	t.mux.Handle(method+" "+prefix+path, t.s.wrap(h))
	t.methods[path] = append(t.methods[path], method)
	if method == http.MethodGet {
		t.methods[path] = append(t.methods[path], http.MethodHead)
	}
}

func (t table) handler() http.Handler {
	for path, methods := range t.methods {
		t.mux.Handle(prefix+path, t.s.wrap(wrongMethod(methods)))
	}
	unknown := t.s.wrap(func(http.ResponseWriter, *http.Request) error { return absent("there is no such route") })
	t.mux.Handle(prefix, unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeader(w.Header())
		if !clean(r.URL.EscapedPath()) { // the mux would redirect, which changes a POST into a GET
			unknown.ServeHTTP(w, r)
			return
		}
		t.mux.ServeHTTP(w, r)
	})
}

// setHeader sets the headers of every answer. The tools identify the API by the first
// answer, whatever its status.
func setHeader(h http.Header) {
	h.Set("TFP-API-Version", "2.6") // below 2.5 `cloud` stops
	h.Set("TFP-AppName", "Terraform Enterprise")
	h.Set("Cache-Control", "no-store")
	h.Set(service.NoSniff, "nosniff")
}

// clean reports whether an escaped path has no "." or "..", and no empty segment but the last.
func clean(path string) bool {
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
		return refuse(http.StatusMethodNotAllowed, "method not allowed", "%s is not one of the methods of this route", printable(r.Method))
	}
}

// wrap makes an http.Handler of h, whose errors become documents.
func (s *server) wrap(h service.Handler) http.Handler { return s.kit.Handle(h, s.writeError) }

// within bounds the time of a request at the registry.
func within(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	return r.WithContext(ctx), cancel
}

// allow decides whether a request may act on a workspaceRef, before anything is looked
// up. A name that no organization can have is not found.
func (s *common) allow(r *http.Request, action rights.Action, p workspaceRef) (access.Grant, error) {
	noOrganization := p.organization != "" && (!validOrganization(p.organization) || s.reserved(p.organization))
	noWorkspace := p.workspace != "" && !validWorkspace(p.workspace)
	if noOrganization || noWorkspace {
		return access.Grant{}, absent("no organization or workspace can have this name")
	}
	manages := action == manage
	if manages {
		action = rights.Write
	}
	g, err := s.o.Allow(r, action, p.organization, p.workspace)
	if err == nil {
		*r = *r.WithContext(statebackend.WithCaller(r.Context(), g.Identity()))
	}
	if err == nil && manages && g.Mode == modeOfRuns {
		return access.Grant{}, refuse(http.StatusForbidden, "forbidden", "a run may write its state, and nothing else of its workspace")
	}
	return g, err
}

const (
	// manage is [rights.Write] for changes that a run must not make to its own
	// workspace, although it may write the state.
	manage rights.Action = "manage"
	// modeOfRuns is the mode of callers that are runs.
	modeOfRuns = "run"
)

// allowWorkspace is allow for the routes with the id of a workspace in the path.
func (s *server) allowWorkspace(r *http.Request, action rights.Action) (workspaceRef, commandID, access.Grant, error) {
	p, h, err := s.parseWorkspace(r, r.PathValue("id"))
	if err != nil {
		return workspaceRef{}, "", access.Grant{}, err
	}
	g, err := s.allow(r, action, p)
	return p, h, g, err
}

// parseWorkspace returns the workspace of an id in any form.
func (s *server) parseWorkspace(r *http.Request, id string) (workspaceRef, commandID, error) {
	if rest, ok := cutID(id, "ws-"); ok && isShort(rest) {
		p, err := s.short.workspace(r, rest)
		return p, "", err
	}
	return parseWorkspaceID(id, s.now())
}

// reserved reports whether a NAME belongs to a workspace of a split organization, which
// has only the address ORGANIZATION/WORKSPACE.
func (s *common) reserved(name string) bool {
	for i, c := range name {
		if c != '.' {
			continue
		}
		if reserved, _ := s.o.Split(name[:i]); reserved {
			return true
		}
	}
	return false
}
