// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const versionKind = "state-versions"

// The statuses of a version.
const (
	statusPending   = "pending"   // announced, and not known to be stored
	statusFinalized = "finalized" // stored
	statusDiscarded = "discarded" // the version has no state: the workspace was deleted
)

// versionAttributes are a version's. Pending, it has both upload addresses, which `cloud` needs.
type versionAttributes struct {
	Serial     uint64 `json:"serial"`
	Lineage    string `json:"lineage,omitempty"`
	Created    string `json:"created-at,omitempty"`
	Status     string `json:"status"`
	Size       int64  `json:"size"` // as stored
	Tool       string `json:"terraform-version,omitempty"`
	Processed  bool   `json:"resources-processed"`
	Download   string `json:"hosted-state-download-url,omitempty"`
	Upload     string `json:"hosted-state-upload-url,omitempty"`
	JSONUpload string `json:"hosted-json-state-upload-url,omitempty"`
}

type versions struct {
	gate    *gate
	stores  *stores
	signer  signer
	outputs outputRoutes
}

func (s versions) addRoutes(t table) {
	t.addRoute("GET", "workspaces/{id}/current-state-version", t.sendSnapshots(t.gate.workspaceHandler(rights.Read, s.currentVersion)))
	t.addRoute("GET", "state-versions", s.listVersions)
	t.addRoute("GET", "state-versions/{id}", handleOne(s.gate.findVersion, rights.Read, s.showVersion))
	t.addLong("GET", "state-versions/{id}/download", handleOne(s.gate.findVersion, rights.Read, s.downloadVersion))
}

// versionOf returns a stored version; the lock of h, the workspace's command, may have its state.
func (k signer) versionOf(r *http.Request, p workspaceRef, h commandID, v statebackend.Version) resource {
	id := p.versionID(v.N)
	a := versionAttributes{
		Serial: v.Serial, Lineage: v.Lineage, Created: formatTime(v.Created), Status: statusFinalized, Size: v.Size, Tool: toolVersion(v.Tool), Processed: true,
		Download: k.address(r, versionKind+"/"+id+"/download"),
	}
	if h != "" {
		a.Download += "?" + commandIDQuery + "=" + string(h)
	}
	if v.Empty || v.Deleted {
		a.Status = statusDiscarded
		a.Download = ""
	}
	return resource{Type: versionKind, ID: id, Attributes: a, Relationships: map[string]relation{"workspace": relationTo("workspaces", p.workspaceID(""))}}
}

// commandIDQuery carries the command ID in a download's address, since a version's id lacks it.
const commandIDQuery = "handle"

// address returns the address of a route, relative if the server's is not known. The tools need an
// absolute one where they send no token.
func (k signer) address(r *http.Request, route string) string {
	if base := k.publicURL(r); base != "" {
		return base + prefix + route
	}
	return route
}

// sendingTool returns the tool of a request as OpenTofu/1.12.6, or "". Both send their version;
// OpenTofu names itself as the agent, Terraform's is go-tfe.
func sendingTool(r *http.Request) string {
	version := printableText(r.Header.Get("Terraform-Version"))
	switch {
	case version == "":
		return ""
	case strings.HasPrefix(r.UserAgent(), "OpenTofu/"):
		return "OpenTofu/" + version
	}
	return "Terraform/" + version
}

// toolVersion returns the version of the tool that wrote a state, if it is recorded.
func toolVersion(tool string) string {
	name, version, _ := strings.Cut(tool, "/")
	if name != "OpenTofu" && name != "Terraform" {
		return ""
	}
	return printableText(version)
}

// sendSnapshots tells the tools how often to store a state during an apply: `cloud` has no default.
func (t table) sendSnapshots(h service.Handler) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("X-Terraform-Snapshot-Interval", strconv.Itoa(int(t.snapshots/time.Second)))
		return h(w, r)
	}
}

// findHeld returns the lock of a request if this process won it. Then the workspace need not be
// looked up: deleting it requires that lock. Whether another process has taken it over since, for
// the same command, the next request under the lock finds out.
func (s *stores) findHeld(ctx context.Context, p workspaceRef, lock string) (located, *statebackend.Lock, bool) {
	at := []located{{workspaceRef: p, name: p.organization, workspace: p.workspace}}
	if reserved, _ := s.gate.split(p.organization); reserved {
		at = append(at, located{workspaceRef: p, name: p.organization + "." + p.workspace, workspace: apart, split: true})
	}
	for _, at := range at {
		var err error
		if at.store, err = s.open(ctx, at.name); err != nil {
			continue
		}
		if l, ok := at.store.Holding(at.workspace, lock); ok {
			return at, l, true
		}
	}
	return located{}, nil, false
}

// currentVersion returns the newest version of a workspace, for a command. Without a state the
// error is an oci.ErrNotFound, which must be certain: the tools would plan from nothing.
func (s *stores) currentVersion(ctx context.Context, p workspaceRef, h commandID) (located, statebackend.Version, error) {
	if h != "" {
		if at, l, ok := s.findHeld(ctx, p, h.lockID()); ok {
			v, err := l.Latest(ctx)
			if !deletedSince(h, v, err) && !errors.Is(err, statebackend.ErrLockLost) {
				return at, v, err
			}
			// deleted while it was being locked, or before it was created again
		}
	}
	at, states, err := s.findForCommand(ctx, p, h)
	if err != nil {
		return at, statebackend.Version{}, err
	}
	v, err := at.describeHead(ctx, states)
	if live := at.liveRecord(); deletedSince(h, v, err) && (live == nil || !live.Created.After(v.Created)) {
		err = deletedUnder(p)
	}
	return at, v, err
}

// deletedSince reports whether the state was deleted after a command began, or a second before.
func deletedSince(h commandID, v statebackend.Version, err error) bool {
	return errors.Is(err, oci.ErrNotFound) && h != "" && v.Deleted && !v.Created.Before(h.createdAt())
}

func deletedUnder(p workspaceRef) error {
	return conflictError("workspace was deleted", "workspace %q was deleted after this command started: run it again", p)
}

// findForCommand finds a workspace and lists its states. For a command, which has read it before, a
// missing one is a conflict: "not found" would be one without a state.
func (s *stores) findForCommand(ctx context.Context, p workspaceRef, h commandID) (located, *statebackend.Listing, error) {
	at, err := s.locate(ctx, p)
	if err != nil {
		return at, nil, err
	}
	if err := notOlder(h, p, at.record); err != nil {
		return at, nil, err
	}
	states, err := at.states(ctx)
	if err != nil {
		return at, nil, err
	}
	if at.record == nil || at.record.Deleted {
		ok, err := states.Exists(ctx, at.workspace)
		if err != nil {
			return at, nil, err
		}
		switch {
		case !ok && h != "":
			return at, nil, deletedUnder(p)
		case !ok:
			return at, nil, noWorkspace(p)
		}
	}
	return at, states, nil
}

// describeHead describes the newest listed version. An empty one may be forged: keys verify it.
func (at located) describeHead(ctx context.Context, states *statebackend.Listing) (statebackend.Version, error) {
	newest := statebackend.Version{}
	if n := states.Numbers(at.workspace); len(n) > 0 {
		var err error
		newest, err = at.store.Describe(ctx, at.workspace, n[0])
		found := err == nil && !newest.Empty && !newest.Deleted
		failed := err != nil && !errors.Is(err, oci.ErrNotFound)
		if found || failed {
			return newest, err
		}
	}
	v, err := states.View(ctx, at.workspace, func([]byte, statebackend.Version) error { return nil })
	if err != nil {
		return newest, err
	}
	return v, nil
}

func (s versions) currentVersion(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	at, v, err := s.stores.currentVersion(r.Context(), p, h)
	if errors.Is(err, oci.ErrNotFound) {
		return errAbsent("workspace %q has no state yet", p)
	}
	if err != nil {
		return err
	}
	return s.answerVersion(w, r, g, at, s.signer.versionOf(r, p, h, v), v)
}

// answerVersion sends a version, with its outputs if the request includes them.
func (s versions) answerVersion(w http.ResponseWriter, r *http.Request, g access.Grant, at located, data resource, v statebackend.Version) error {
	d := document{Data: data}
	if includesRelated(r, "outputs") && !v.Empty && !v.Deleted {
		o, release, err := s.outputs.newestOutputs(r.Context(), g, at, v.N)
		if err != nil {
			return err
		}
		defer release()
		d.Included = o.list()
		data.Relationships["outputs"] = toAll(d.Included)
	}
	return sendDocument(w, http.StatusOK, d)
}

func includesRelated(r *http.Request, name string) bool {
	return slices.Contains(strings.Split(r.URL.Query().Get("include"), ","), name)
}

// showVersion answers for stored versions, and for uploads, whose result the tools ask for.
func (s versions) showVersion(w http.ResponseWriter, r *http.Request, id namedVersion) error {
	if id.pending {
		data, err := s.findUploaded(r, id.g, id.stateVersion)
		if err != nil {
			return err
		}
		return sendDocument(w, http.StatusOK, document{Data: data})
	}
	at, err := s.stores.openWorkspace(r.Context(), id.workspaceRef)
	if err != nil {
		return err
	}
	v, err := at.describeVersion(r.Context(), id.n)
	if err != nil {
		return err
	}
	return s.answerVersion(w, r, id.g, at, s.signer.versionOf(r, id.workspaceRef, "", v), v)
}

type namedVersion struct {
	stateVersion
	g access.Grant
}

// findVersion is allowRef for the routes with the id of a version in the path.
func (s *gate) findVersion(r *http.Request, action rights.Action) (v namedVersion, err error) {
	if v.stateVersion, err = parseVersionID(r.PathValue("id"), s.now()); err != nil {
		return v, err
	}
	v.g, err = s.allowRef(r, action, v.workspaceRef)
	return v, err
}

// describeVersion reads version n without its state; 0 is the version of a tool without versions.
func (at located) describeVersion(ctx context.Context, n int64) (statebackend.Version, error) {
	if n == 0 {
		return at.view(ctx, 0, func([]byte) error { return nil })
	}
	v, err := at.store.Describe(ctx, at.workspace, n)
	if errors.Is(err, oci.ErrNotFound) {
		return v, errAbsent("workspace %q has no version %d", at.workspaceRef, n)
	}
	return v, err
}

func (at located) view(ctx context.Context, n int64, use func(state []byte) error) (statebackend.Version, error) {
	use2 := func(state []byte, v statebackend.Version) error {
		if v.N != n {
			return errAbsent("workspace %q no longer has version %d", at.workspaceRef, n)
		}
		return use(state)
	}
	if n == 0 {
		return at.store.View(ctx, at.workspace, use2)
	}
	return at.store.ViewVersion(ctx, at.workspace, n, use2)
}

// maxLooked bounds the search for an uploaded version, which is among the newest.
const maxLooked = 32

// findUploaded returns the result of an announced version: the newest of its lock with its serial.
func (s versions) findUploaded(r *http.Request, g access.Grant, id stateVersion) (resource, error) {
	ctx := r.Context()
	lock := lockIDOf(id.commandID, g.Caller)
	mine := func(v statebackend.Version) bool {
		return v.Serial == id.serial && (v.LockID == lock || v.LockID == lockOfWrite(lock, id.serial))
	}
	data := func(v statebackend.Version) resource {
		d := s.signer.versionOf(r, id.workspaceRef, id.commandID, v)
		d.ID = r.PathValue("id")
		return d
	}
	if _, l, ok := s.stores.findHeld(ctx, id.workspaceRef, lock); ok {
		if v, err := l.Head(ctx); err == nil && mine(v) {
			return data(v), nil
		}
	}
	at, states, err := s.stores.findForCommand(ctx, id.workspaceRef, id.commandID)
	if err != nil {
		return resource{}, err
	}
	numbers := states.Numbers(at.workspace)
	for _, n := range numbers[:min(len(numbers), maxLooked)] {
		v, err := at.store.Describe(ctx, at.workspace, n)
		if errors.Is(err, oci.ErrNotFound) {
			continue // pruned meanwhile
		}
		if err != nil {
			return resource{}, err
		}
		if mine(v) {
			return data(v), nil
		}
	}
	return resource{Type: versionKind, ID: r.PathValue("id"), Attributes: versionAttributes{Serial: id.serial, Status: statusPending}}, nil
}

func filteredWorkspace(r *http.Request) (workspaceRef, error) {
	q := r.URL.Query()
	p := workspaceRef{q.Get("filter[organization][name]"), q.Get("filter[workspace][name]")}
	if p.organization == "" || p.workspace == "" {
		return p, invalidError("filter[organization][name] and filter[workspace][name] are both required")
	}
	return p, nil
}

func (s versions) listVersions(w http.ResponseWriter, r *http.Request) error {
	p, err := filteredWorkspace(r)
	if err != nil {
		return err
	}
	if _, err := s.gate.allowRef(r, rights.Read, p); err != nil {
		return err
	}
	at, states, err := s.stores.findForCommand(r.Context(), p, "")
	if err != nil {
		return err
	}
	numbers := states.Numbers(at.workspace)
	from, to, meta := readPage(r.URL.Query()).rangeOf(len(numbers))
	list := make([]resource, 0, to-from)
	for _, n := range numbers[from:to] {
		v, err := at.store.Describe(r.Context(), at.workspace, n)
		if errors.Is(err, oci.ErrNotFound) {
			continue // pruned meanwhile
		}
		if err != nil {
			return err
		}
		list = append(list, s.signer.versionOf(r, p, "", v))
	}
	return sendDocument(w, http.StatusOK, document{Data: list, Meta: meta})
}

// downloadVersion sends a state, never without a token: the address would end up in logs.
func (s versions) downloadVersion(w http.ResponseWriter, r *http.Request, id namedVersion) error {
	if id.pending {
		return errAbsent("this version is being uploaded")
	}
	state, release, err := s.stateOf(r, id.g, id.stateVersion)
	if err != nil {
		return err
	}
	defer release()
	writeState(w, state)
	return nil
}

// stateOf reads the state of a version; the caller calls release to free its memory. It leaves out
// the store's read budget, so that a slow download blocks no other reader.
func (s versions) stateOf(r *http.Request, g access.Grant, id stateVersion) (state []byte, release func(), err error) {
	r, cancel := limitTime(r)
	defer cancel()
	if state, err = s.fromLock(r, id); err != nil {
		return nil, nil, err
	}
	if state != nil {
		release, err = acquireRead(s.outputs.memory, g, state)
		return state, release, err
	}
	at, err := s.stores.openWorkspace(r.Context(), id.workspaceRef)
	if err != nil {
		return nil, nil, err
	}
	_, err = at.view(r.Context(), id.n, func(b []byte) (err error) {
		state = b
		release, err = acquireRead(s.outputs.memory, g, b)
		return err
	})
	return state, release, absentState(id.workspaceRef, id.n, err)
}

// absentState turns not found into the error that a version has no state.
func absentState(p workspaceRef, n int64, err error) error {
	if errors.Is(err, oci.ErrNotFound) {
		return errAbsent("version %d of workspace %q has no state", n, p)
	}
	return err
}

// fromLock reads the current state through the lock of the request's command; nil if it cannot.
func (s versions) fromLock(r *http.Request, id stateVersion) ([]byte, error) {
	h, ok := parseCommandID(r.URL.Query().Get(commandIDQuery), s.gate.now())
	if !ok {
		return nil, nil
	}
	_, l, ok := s.stores.findHeld(r.Context(), id.workspaceRef, h.lockID())
	if !ok {
		return nil, nil
	}
	if v, err := l.Head(r.Context()); err != nil || v.N != id.n {
		return nil, nil
	}
	state, _, err := l.Get(r.Context())
	return state, err
}

// smallState is the size, in bytes, up to which a state needs no reserved memory.
const smallState = 1 << 20

func acquireRead(memory *service.Limiter[string], g access.Grant, state []byte) (release func(), err error) {
	if len(state) <= smallState {
		return func() {}, nil
	}
	return reserveMemory(memory, g.Caller, int64(len(state)))
}

// writeState sends a state, without time limit, but disconnects a client that stops reading.
func writeState(w http.ResponseWriter, state []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(state)))
	_, _ = service.NewPaced(w, service.Timeout).Write(state) // the client has disconnected
}
