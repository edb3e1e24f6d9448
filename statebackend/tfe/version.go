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

// versionKind is the type of the resource that is a version of a state.
const versionKind = "state-versions"

// What a version may be.
const (
	statusPending   = "pending"   // announced, and not known to be stored
	statusFinalized = "finalized" // stored
	statusDiscarded = "discarded" // there is no state in it: the workspace was deleted
)

// versionAttributes are those of a version. The two upload addresses are there
// while it is pending, and then both: `cloud` does not go on with one.
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

// versionOf is a stored version as a resource. h is the handle by which the
// workspace was asked for, under whose lock the state may be in memory.
func (s versions) versionOf(r *http.Request, p workspaceRef, h commandID, v statebackend.Version) resource {
	id := p.versionID(v.N)
	a := versionAttributes{
		Serial: v.Serial, Lineage: v.Lineage, Created: date(v.Created), Status: statusFinalized, Size: v.Size, Tool: toolVersion(v.Tool), Processed: true,
		Download: s.address(r, versionKind+"/"+id+"/download"),
	}
	if h != "" {
		a.Download += "?" + commandIDQuery + "=" + string(h)
	}
	if v.Empty || v.Deleted {
		a.Status = statusDiscarded
		a.Download = ""
	}
	return resource{Type: versionKind, ID: id, Attributes: a, Relationships: map[string]relation{"workspace": to("workspaces", p.id(""))}}
}

// commandIDQuery names the handle of a command in the address of a download, which is
// not in the id of a version.
const commandIDQuery = "handle"

// address is where a client finds a route. The tools need it absolute where they
// send no token; where nobody knows it, it is relative to the others.
func (s *server) address(r *http.Request, route string) string {
	if base := s.o.PublicURL(r); base != "" {
		return base + prefix + route
	}
	return route
}

// toolVersion is the version of the tool that wrote a state, where it says so.
func toolVersion(tool string) string {
	name, version, _ := strings.Cut(tool, "/")
	if name != "OpenTofu" && name != "Terraform" {
		return ""
	}
	return printable(version)
}

// setSnapshots tells the tools how often to store a state while they apply: without
// it `cloud` stores none before the end.
func (s versions) setSnapshots(w http.ResponseWriter) {
	w.Header().Set("X-Terraform-Snapshot-Interval", strconv.Itoa(int(s.o.SnapshotInterval/time.Second)))
}

// holding returns the lock of a request if this process won it. Then nothing has to
// be asked about the workspace: whoever deletes it needs that lock. Another process
// may have taken it over for a request of the same command since, which the lock
// finds out with its next request.
func (s versions) holding(ctx context.Context, p workspaceRef, lock string) (located, *statebackend.Lock, bool) {
	at := []located{{workspaceRef: p, name: p.organization, workspace: p.workspace}}
	if reserved, _ := s.o.Split(p.organization); reserved {
		at = append(at, located{workspaceRef: p, name: p.organization + "." + p.workspace, workspace: apart, split: true})
	}
	for _, at := range at {
		var err error
		if at.store, err = s.o.Open(ctx, at.name); err != nil {
			continue
		}
		if l, ok := at.store.Holding(at.workspace, lock); ok {
			return at, l, true
		}
	}
	return located{}, nil, false
}

// current is the newest version of a workspace, for the command of a handle. Where
// there is no state the error is an oci.ErrNotFound, and then surely so: the tools
// would plan from nothing.
func (s versions) current(ctx context.Context, p workspaceRef, h commandID) (located, statebackend.Version, error) {
	if h != "" {
		if at, l, ok := s.holding(ctx, p, h.lockID()); ok {
			v, err := l.Latest(ctx)
			if !deletedSince(h, v, err) && !errors.Is(err, statebackend.ErrLockLost) {
				return at, v, err
			}
			// deleted in the moment in which it was locked, or before it was made again
		}
	}
	at, states, err := s.look(ctx, p, h)
	if err != nil {
		return at, statebackend.Version{}, err
	}
	v, err := at.head(ctx, states)
	if live := at.live(); deletedSince(h, v, err) && (live == nil || !live.Created.After(v.Created)) {
		err = deletedUnder(p)
	}
	return at, v, err
}

// deletedSince reports whether there is no state because it was deleted after a
// command began, or in the second before.
func deletedSince(h commandID, v statebackend.Version, err error) bool {
	return errors.Is(err, oci.ErrNotFound) && h != "" && v.Deleted && !v.Created.Before(h.made())
}

// deletedUnder refuses a command whose workspace is gone.
func deletedUnder(p workspaceRef) error {
	return conflict("workspace was deleted", "workspace %q was deleted after this command began: run it again", p)
}

// look finds a workspace for the command of a handle, and lists its states. That it is
// not there is a conflict to a command, which has read it: it would take "not found"
// for a workspace without a state.
func (s versions) look(ctx context.Context, p workspaceRef, h commandID) (located, *statebackend.Listing, error) {
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

// head describes the newest version in a list. That there is none is believed of
// who has the keys only.
func (at located) head(ctx context.Context, states *statebackend.Listing) (statebackend.Version, error) {
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

func (s versions) currentVersion(w http.ResponseWriter, r *http.Request) error {
	s.setSnapshots(w)
	p, h, g, err := s.allowWorkspace(r, rights.Read)
	if err != nil {
		return err
	}
	r, cancel := within(r)
	defer cancel()
	at, v, err := s.current(r.Context(), p, h)
	if errors.Is(err, oci.ErrNotFound) {
		return absent("workspace %q has no state yet", p)
	}
	if err != nil {
		return err
	}
	return s.answerVersion(w, r, g, at, s.versionOf(r, p, h, v), v)
}

// answerVersion sends a version, with its outputs if they are asked for.
func (s versions) answerVersion(w http.ResponseWriter, r *http.Request, g access.Grant, at located, data resource, v statebackend.Version) error {
	d := document{Data: data}
	if includes(r, "outputs") && !v.Empty && !v.Deleted {
		o, release, err := s.outputRoutes().newestOutputs(r.Context(), g, at, v.N)
		if err != nil {
			return err
		}
		defer release()
		data.Relationships["outputs"] = o.refs()
		d.Included = o.list()
	}
	return answer(w, http.StatusOK, d)
}

// includes reports whether a request asks for related resources.
func includes(r *http.Request, name string) bool {
	return slices.Contains(strings.Split(r.URL.Query().Get("include"), ","), name)
}

// showVersion answers for versions that are stored and for those that are being
// uploaded, which the tools ask for to see what became of them.
func (s versions) showVersion(w http.ResponseWriter, r *http.Request) error {
	id, g, err := s.allowVersion(r)
	if err != nil {
		return err
	}
	r, cancel := within(r)
	defer cancel()
	if id.pending {
		data, err := s.uploaded(r, g, id)
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, document{Data: data})
	}
	at, err := s.open(r.Context(), id.workspaceRef)
	if err != nil {
		return err
	}
	v, err := at.describe(r.Context(), id.n)
	if err != nil {
		return err
	}
	return s.answerVersion(w, r, g, at, s.versionOf(r, id.workspaceRef, "", v), v)
}

// allowVersion is allow for the routes with the id of a version.
func (s versions) allowVersion(r *http.Request) (stateVersion, access.Grant, error) {
	id, err := parseVersionID(r.PathValue("id"), s.now())
	if err != nil {
		return stateVersion{}, access.Grant{}, err
	}
	g, err := s.allow(r, rights.Read, id.workspaceRef)
	return id, g, err
}

// describe reads version n without its state; 0 is that of a tool without versions.
func (at located) describe(ctx context.Context, n int64) (statebackend.Version, error) {
	if n == 0 {
		return at.view(ctx, 0, func([]byte) error { return nil })
	}
	v, err := at.store.Describe(ctx, at.workspace, n)
	if errors.Is(err, oci.ErrNotFound) {
		return v, absent("workspace %q has no version %d", at.workspaceRef, n)
	}
	return v, err
}

// view reads the state of version n.
func (at located) view(ctx context.Context, n int64, use func(state []byte) error) (statebackend.Version, error) {
	use2 := func(state []byte, v statebackend.Version) error {
		if v.N != n {
			return absent("workspace %q has no version %d any more", at.workspaceRef, n)
		}
		return use(state)
	}
	if n == 0 {
		return at.store.View(ctx, at.workspace, use2)
	}
	return at.store.ViewVersion(ctx, at.workspace, n, use2)
}

// maxLooked bounds how many versions are looked at for one that was uploaded. It is
// among the newest, unless others were stored at once.
const maxLooked = 32

// uploaded is what became of a version that was announced: the newest one that its
// lock stored with its serial.
func (s versions) uploaded(r *http.Request, g access.Grant, id stateVersion) (resource, error) {
	ctx := r.Context()
	lock := lockIDOf(id.commandID, g.Caller)
	mine := func(v statebackend.Version) bool {
		return v.Serial == id.serial && (v.LockID == lock || v.LockID == lockOfWrite(lock, id.serial))
	}
	data := func(v statebackend.Version) resource {
		d := s.versionOf(r, id.workspaceRef, id.commandID, v)
		d.ID = r.PathValue("id")
		return d
	}
	if _, l, ok := s.holding(ctx, id.workspaceRef, lock); ok {
		if v, err := l.Head(ctx); err == nil && mine(v) {
			return data(v), nil
		}
	}
	at, states, err := s.look(ctx, id.workspaceRef, id.commandID)
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

// filtered is the workspace that a request names by a filter.
func filtered(r *http.Request) (workspaceRef, error) {
	q := r.URL.Query()
	p := workspaceRef{q.Get("filter[organization][name]"), q.Get("filter[workspace][name]")}
	if p.organization == "" || p.workspace == "" {
		return p, invalid("filter[organization][name] and filter[workspace][name] are needed, both")
	}
	return p, nil
}

// listVersions is the history of one workspace, newest first.
func (s versions) listVersions(w http.ResponseWriter, r *http.Request) error {
	p, err := filtered(r)
	if err != nil {
		return err
	}
	if _, err := s.allow(r, rights.Read, p); err != nil {
		return err
	}
	r, cancel := within(r)
	defer cancel()
	at, states, err := s.look(r.Context(), p, "")
	if err != nil {
		return err
	}
	numbers := states.Numbers(at.workspace)
	from, to, meta := readPage(r.URL.Query()).of(len(numbers))
	list := make([]resource, 0, to-from)
	for _, n := range numbers[from:to] {
		v, err := at.store.Describe(r.Context(), at.workspace, n)
		if errors.Is(err, oci.ErrNotFound) {
			continue // pruned meanwhile
		}
		if err != nil {
			return err
		}
		list = append(list, s.versionOf(r, p, "", v))
	}
	return answer(w, http.StatusOK, document{Data: list, Meta: meta})
}

// downloadVersion sends the bytes of a state. There is no address that needs no
// token: it would end in logs.
func (s versions) downloadVersion(w http.ResponseWriter, r *http.Request) error {
	id, g, err := s.allowVersion(r)
	if err != nil {
		return err
	}
	if id.pending {
		return absent("this version is being uploaded")
	}
	state, release, err := s.stateOf(r, g, id)
	if err != nil {
		return err
	}
	defer release()
	writeState(w, state)
	return nil
}

// stateOf reads the state of a version, for which the caller gives back a place in
// memory. It takes none of what stores have to read with: whoever takes a download
// slowly keeps nobody else waiting.
func (s versions) stateOf(r *http.Request, g access.Grant, id stateVersion) (state []byte, release func(), err error) {
	r, cancel := within(r)
	defer cancel()
	if state, err = s.fromLock(r, id); err != nil {
		return nil, nil, err
	}
	if state != nil {
		release, err = s.acquireRead(g, state)
		return state, release, err
	}
	at, err := s.open(r.Context(), id.workspaceRef)
	if err != nil {
		return nil, nil, err
	}
	_, err = at.view(r.Context(), id.n, func(b []byte) (err error) {
		state = b
		release, err = s.acquireRead(g, b)
		return err
	})
	return state, release, absentState(id.workspaceRef, id.n, err)
}

// absentState says that a version has no state, where that is what an error says.
func absentState(p workspaceRef, n int64, err error) error {
	if errors.Is(err, oci.ErrNotFound) {
		return absent("version %d of workspace %q has no state", n, p)
	}
	return err
}

// fromLock reads the current state of who has just asked for it under a lock, which
// remembers where it is. It is nil where that is not so.
func (s versions) fromLock(r *http.Request, id stateVersion) ([]byte, error) {
	h, ok := parseCommandID(r.URL.Query().Get(commandIDQuery), s.now())
	if !ok {
		return nil, nil
	}
	_, l, ok := s.holding(r.Context(), id.workspaceRef, h.lockID())
	if !ok {
		return nil, nil
	}
	if v, err := l.Head(r.Context()); err != nil || v.N != id.n {
		return nil, nil
	}
	state, _, err := l.Get(r.Context())
	return state, err
}

// smallState is what needs no place in memory, in bytes: the bounds of requests are
// enough.
const smallState = 1 << 20

// acquireRead takes a place for a state that is being looked at.
func (s versions) acquireRead(g access.Grant, state []byte) (release func(), err error) {
	if len(state) <= smallState {
		return func() {}, nil
	}
	return s.limiter.acquire(subjectOf(g.Caller), int64(len(state)))
}

// writeState sends a state. It is not bounded in time as a whole, but whoever does
// not take it does not keep it in memory.
func writeState(w http.ResponseWriter, state []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(state)))
	_, _ = service.NewPaced(w, service.Timeout).Write(state) // the client is gone; there is nobody to tell
}
