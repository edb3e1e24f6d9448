// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
	probe "github.com/seed-141914ff/okara/statebackend/doctor"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// registryUse is a built-in registry, and what the server records of its use.
type registryUse struct {
	t     *testing.T
	front *Front
	log   bytes.Buffer

	tokens []statictoken.Token
}

func newRegistryUse(t *testing.T, h http.Handler, keys ...statebackend.Sealer) *registryUse {
	t.Helper()
	u := &registryUse{t: t}
	client := must.Get(oci.New("registry.test", oci.Options{PlainHTTP: true, Transport: ocitest.Direct{Handler: h}, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	for _, who := range []string{"anna", "bob"} {
		id, hash := must.GetBoth(statictoken.Hash(useToken(who)))(t)
		u.tokens = append(u.tokens, statictoken.Token{ID: id, Hash: hash, Scopes: rights.AnonymousAll()})
	}
	back := backend{client: client, embedded: h, acts: newActs()}
	o := statebackend.Options{StrictReads: true}
	if len(keys) > 0 {
		o.Sealer = keys[0]
	}
	u.front = must.Get(New(Options{
		Options: registry.Options{Client: client, Audit: slog.New(slog.NewJSONHandler(&u.log, nil))}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("s"), 32)}},
		Access: access.Policy{Tokens: u.tokens}, Embedded: h, acts: back.acts,
		Stores: newStateStores(back, o, slog.New(slog.DiscardHandler)).storeNamed,
	}))(t)
	return u
}

// asks returns the context of requests that the server has from somebody by another door.
func (u *registryUse) asks(who string) context.Context {
	u.t.Helper()
	r := httptest.NewRequestWithContext(u.t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+useToken(who))
	return statebackend.WithCaller(u.t.Context(), must.Get(u.front.kit.Guard.CallerOf(r))(u.t).Identity(), who)
}

func useToken(who string) string { return "oks_" + who + "_0123456789abcdefghijklmno" }

// open returns a repository as a client of the server sees it.
func (u *registryUse) open(who, name string) *oci.Repo {
	u.t.Helper()
	return must.Get(u.client(who, nil).Repo(name))(u.t)
}

func (u *registryUse) client(who string, wrap func(http.RoundTripper) http.RoundTripper) *oci.Client {
	u.t.Helper()
	var base http.RoundTripper = bearer{who, ocitest.Direct{Handler: u.front}}
	if wrap != nil {
		base = wrap(base)
	}
	return must.Get(oci.New("okara.test", oci.Options{PlainHTTP: true, Transport: base, Retry: oci.Retry{MaxAttempts: 1}}))(u.t)
}

func (u *registryUse) store(who string) *statebackend.Store {
	return statebackend.New(u.open(who, "state/app"), statebackend.Options{})
}

// hold changes a state of workspace dev under a lock.
func (u *registryUse) hold(who, operation string, do func(context.Context, *statebackend.Lock) error) {
	u.t.Helper()
	l := u.lock(who, operation)
	must.Succeed(u.t, do(u.t.Context(), l))
	must.Succeed(u.t, l.Unlock(u.t.Context()))
}

func (u *registryUse) lock(who, operation string) *statebackend.Lock {
	u.t.Helper()
	return must.Get(u.store(who).Lock(u.t.Context(), "dev", statebackend.LockInfo{ID: "id-of-" + who, Operation: operation, Who: who}))(u.t)
}

// put writes a state with a serial number.
func put(serial int) func(context.Context, *statebackend.Lock) error {
	return func(ctx context.Context, l *statebackend.Lock) error {
		_, err := l.Put(ctx, fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":"a"}`, serial))
		return err
	}
}

// took returns the changes that were recorded since the last call, one per line.
func (u *registryUse) took() string {
	u.t.Helper()
	u.front.o.acts.settleDeletions(false)
	var lines []string
	for dec := json.NewDecoder(&u.log); dec.More(); {
		var r struct {
			Msg, Action, Address, Version, Digest, Detail, Subject, Outcome string
			From                                                            string `json:"from_version"`
			Lock                                                            string `json:"lock_id"`
		}
		must.Succeed(u.t, dec.Decode(&r))
		if stores := slices.Contains([]string{"write", "restore", "publish", "rekey"}, r.Action); r.Msg == "change" && stores && r.Digest == "" {
			u.t.Errorf("%s of %s has no digest", r.Action, r.Address)
		}
		if r.Msg == "change" {
			lines = append(lines, strings.Join(strings.Fields(strings.Join([]string{r.Subject, r.Action, r.Address, r.Version, r.From, r.Lock, r.Detail}, " ")), " "))
		}
	}
	return strings.Join(lines, "\n")
}

type bearer struct {
	who  string
	base http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+useToken(b.who))
	return b.base.RoundTrip(r)
}

// TestActs uses the built-in registry as commands and tools do, and as one who hides what he does:
// one act is one record.
//
// Shows: mistakes 39
func TestActs(t *testing.T) {
	inner := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		u := newRegistryUse(t, inner)
		ctx := t.Context()
		says := func(what string, want ...string) {
			t.Helper()
			if d := cmp.Diff(strings.Join(want, "\n"), u.took()); d != "" {
				t.Errorf("%s (-want +got):\n%s", what, d)
			}
		}
		repo := u.open("anna", "state/app")
		raw := func(who, tag string, m oci.Manifest) {
			t.Helper()
			must.Succeed(t, u.open(who, "state/app").PutTag(ctx, tag, m))
		}

		u.hold("anna", "OperationTypePlan", func(context.Context, *statebackend.Lock) error { return nil })
		says("plan", "anna lock app/dev id-of-anna plan", "anna unlock app/dev id-of-anna")
		u.hold("anna", "OperationTypeApply", put(1))
		says("apply", "anna lock app/dev id-of-anna apply", "anna write app/dev 1 id-of-anna apply", "anna unlock app/dev id-of-anna")
		u.hold("anna", "push", put(2))
		says("a command", "anna write app/dev 2 id-of-anna push")

		held := u.lock("anna", "push")
		time.Sleep(actTime + time.Second)
		says("a command that holds a lock", "anna lock app/dev id-of-anna push")
		must.Succeed(t, u.store("bob").ForceUnlock(ctx, "dev", "id-of-anna"))
		says("force", "bob force-unlock app/dev id-of-anna forced")
		_ = held.Unlock(ctx)
		u.hold("bob", "OperationTypeApply", put(5))
		says("takeover", "bob lock app/dev id-of-bob apply", "bob write app/dev 100004 id-of-bob apply", "bob unlock app/dev id-of-bob")

		odd := must.Get(u.store("anna").Lock(ctx, "release/v2", statebackend.LockInfo{ID: "id-of-anna", Operation: "push"}))(t)
		must.Succeed(t, put(1)(ctx, odd))
		must.Succeed(t, odd.Unlock(ctx))
		says("a name that is no part of a tag", "anna write app/release/v2 1 id-of-anna push")

		// Steps without their act.
		claim := func(who string, fence int64) (string, oci.Manifest) {
			x := format.ClaimX("id-of-"+who, 7)
			return format.StateTag{Kind: format.LockClaim, Fragment: "dev", N: fence, X: x}.String(),
				must.Fixed(format.NewLockManifest(format.LockManifest{Kind: format.KindClaim, Workspace: "dev", Info: format.LockInfo{ID: "id-of-" + who, Operation: "push"}, Fence: fence, Nonce: x}))
		}
		tag, m := claim("bob", 100007)
		raw("bob", tag, m)
		says("a claim")
		time.Sleep(actTime + time.Second)
		says("a claim that stays", "bob lock app/dev id-of-bob push")
		must.Succeed(t, u.open("bob", "state/app").Delete(ctx, m.Descriptor))
		says("its end", "bob unlock app/dev id-of-bob")

		old := depottest.MustFetch(t, repo, "state-dev-v2")
		raw("bob", "state-dev", old)
		says("an old state as the current one", "bob push app/dev tag state-dev")
		parent := must.Get(format.ParseState(old))(t)
		parent.N, parent.ParentN, parent.Operation, parent.Fence = 100009, 2, format.OperationTakeover, 100009
		raw("bob", "state-dev-v100009", must.Fixed(format.NewStateManifest(parent)))
		says("an old state as that of a takeover", "bob write app/dev 100009 id-of-anna takeover, content of 2")
		raw("bob", "state-dev-v100010", old)
		says("a version that is none", "bob push app/dev 100010 tag state-dev-v100010")

		next := parent
		next.N, next.Serial, next.Operation = 100011, 8, "OperationTypeApply"
		m = must.Fixed(format.NewStateManifest(next))
		raw("anna", "state-dev-v100011", m)
		raw("anna", "state-dev-v100011", m)
		raw("anna", "state-dev", m)
		says("a version that is sent twice", "anna write app/dev 100011 id-of-anna apply")
		must.Succeed(t, repo.Untag(ctx, "state-dev-v100011"))
		says("its end", "anna prune app/dev 100011")
		raw("bob", "state-dev", m)
		raw("bob", "state-dev-v100011", m)
		says("what was removed is current again", "bob write app/dev 100011 id-of-anna apply")

		// A chain of claims, none of which stays, and a marker of a claim that is not there.
		before := ""
		for i := range 9 {
			tag, m := claim("bob", 100020+int64(i))
			raw("bob", tag, m)
			if before != "" {
				must.Succeed(t, u.open("bob", "state/app").Untag(ctx, before))
			}
			before = tag
			time.Sleep(heldTime/2 + time.Second)
		}
		says("a chain of claims", "bob lock app/dev id-of-bob push", "bob unlock app/dev id-of-bob")
		must.Succeed(t, u.open("bob", "state/app").Untag(ctx, before))
		u.took()
		_, m = claim("bob", 100040)
		raw("bob", "locked-dev", m)
		says("a marker of nothing", "bob push app/dev tag locked-dev")

		// A claim that says that it joined another one, which then ends.
		for _, root := range []struct{ workspace, id string }{{"decoy", "id-of-bob"}, {"dev", "decoy"}, {"dev", "id-of-bob"}} {
			push := func(workspace, id, root string) string {
				t.Helper()
				x := format.ClaimX(id, uint32(len(root)))
				m := must.Fixed(format.NewLockManifest(format.LockManifest{
					Kind: format.KindClaim, Workspace: workspace, Info: format.LockInfo{ID: id, Operation: "push"}, Fence: 100012, Nonce: x, Root: root,
				}))
				tag := format.StateTag{Kind: format.LockClaim, Fragment: workspace, N: 100012, X: x}.String()
				raw("bob", tag, m)
				return tag
			}
			tag := push(root.workspace, root.id, "")
			joined := push("dev", "id-of-bob", tag)
			time.Sleep(actTime / 2)
			must.Succeed(t, u.open("bob", "state/app").Untag(ctx, tag))
			time.Sleep(actTime + time.Second)
			must.Succeed(t, u.open("bob", "state/app").Untag(ctx, joined))
			decoy := "bob lock app/" + root.workspace + " " + root.id + " push\n" + "bob unlock app/" + root.workspace + " " + root.id
			says("joined "+root.workspace+" "+root.id, decoy, "bob lock app/dev id-of-bob push", "bob unlock app/dev id-of-bob")
		}
	})
}

// TestClaimOfAnother takes a lock's tags from its holder, who has it through any door: only
// force-unlock, recorded, ends it, if half done too. Without a key to complete it what would be
// current is refused.
func TestClaimOfAnother(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	must.Succeed(t, os.WriteFile(file, bytes.Repeat([]byte("k"), 32), 0o600))
	key := must.Get(envelope.New(envelope.Options{Keys: []string{file}}))(t)
	for _, door := range []string{"registry", "another", "half", "half, another", "half, sealed"} {
		inner := ocitest.Handler(t, ocitest.Quirks{})
		u := newRegistryUse(t, inner)
		ctx := t.Context()
		half := strings.HasPrefix(door, "half")
		store := u.store("anna")
		switch {
		case strings.HasSuffix(door, "another"):
			ctx = u.asks("anna")
			store = must.Get(u.front.o.Stores(ctx, "app"))(t)
		case strings.HasSuffix(door, "sealed"):
			store = statebackend.New(u.open("anna", "state/app"), statebackend.Options{Sealer: key})
		}
		l := must.Get(store.Lock(ctx, "dev", statebackend.LockInfo{ID: "id-of-anna", Operation: "OperationTypeApply"}))(t)
		repo := u.open("bob", "state/app")
		tag := claimTag(t, repo)
		claim := depottest.MustFetch(t, repo, tag)
		of, _ := format.ParseStateTag(tag)
		end := func(reason format.LockReason, x string) oci.Manifest {
			return must.Fixed(format.NewLockManifest(format.LockManifest{Kind: format.KindTombstone, Workspace: "dev", Fence: of.N, Nonce: x, Reason: reason}))
		}
		released := end(format.ReasonReleased, of.X)
		u.took()
		refused := func(what string, err error) {
			t.Helper()
			if e, ok := errors.AsType[*oci.ResponseError](err); !ok || e.Status != http.StatusConflict || !strings.Contains(e.Error(), "hint: ") {
				t.Errorf("%s, %s: %v", door, what, err)
			}
		}
		for what, do := range map[string]func() error{
			"delete the tag":       func() error { return repo.Untag(ctx, tag) },
			"delete the digest":    func() error { return repo.Delete(ctx, claim.Descriptor) },
			"replace":              func() error { return repo.PutTag(ctx, tag, released) },
			"release":              func() error { return repo.PutTag(ctx, "un"+tag, released) },
			"release by force":     func() error { return repo.PutTag(ctx, "un"+tag+"-f", released) },
			"an uncertain release": func() error { return repo.PutTag(ctx, "un"+tag+"-f", end(format.ReasonUncertain, of.X)) },
			"orphaned":             func() error { return repo.PutTag(ctx, "un"+tag+"-f", end(format.ReasonOrphan, of.X)) },
			"end another":          func() error { return repo.PutTag(ctx, "un"+tag+"-f", end(format.ReasonForced, "0000000000000000")) },
		} {
			refused(what, do())
		}
		must.Succeed(t, put(1)(ctx, l))
		version := func(n int64) oci.Manifest {
			s := must.Get(format.ParseState(depottest.MustFetch(t, repo, fmt.Sprintf("state-dev-v%d", of.N))))(t)
			s.N, s.Serial = n, 66
			return must.Fixed(format.NewStateManifest(s))
		}
		x := format.ClaimX("id-of-bob", 7) // a claim beside the lock, which holds nothing
		own := format.StateTag{Kind: format.LockClaim, Fragment: "dev", N: of.N, X: x}.String()
		must.Succeed(t, repo.PutTag(ctx, own, must.Fixed(format.NewLockManifest(format.LockManifest{Kind: format.KindClaim, Workspace: "dev", Info: format.LockInfo{ID: "id-of-bob"}, Fence: of.N, Nonce: x}))))
		for _, n := range []int64{of.N, of.N + 1, of.N + 100} {
			refused("write", repo.PutTag(ctx, fmt.Sprintf("state-dev-v%d", n), version(n)))
		}
		refused("move the pointer", repo.PutTag(ctx, "state-dev", version(of.N+1)))
		refused("remove the current version", repo.Untag(ctx, fmt.Sprintf("state-dev-v%d", of.N)))
		must.Succeed(t, repo.Untag(ctx, own))
		if _, err := u.store("bob").Lock(ctx, "dev", statebackend.LockInfo{ID: "id-of-bob"}); err == nil {
			t.Errorf("%s: two hold the lock", door)
		}
		if got := u.took(); strings.Contains(got, "bob") {
			t.Errorf("%s: changed:\n%s", door, got)
		}
		forced := end(format.ReasonForced, of.X)
		if half {
			must.Succeed(t, repo.PutTag(ctx, "un"+tag+"-f", forced))
			refused("hold again", repo.Untag(ctx, "un"+tag+"-f"))
			refused("hold again, by digest", repo.Delete(ctx, forced.Descriptor))
		} else {
			must.Succeed(t, u.store("bob").ForceUnlock(ctx, "dev", "id-of-anna"))
		}
		if strings.HasSuffix(door, "sealed") {
			refused("forget the end", repo.Untag(ctx, tag))
			refused("a write after the end", put(2)(ctx, l))
		} else if err := put(2)(ctx, l); !errors.Is(err, statebackend.ErrLockLost) || !strings.Contains(err.Error(), "which is not current") {
			t.Errorf("%s: a write after the end: %v", door, err)
		}
		if state, _, err := store.Get(ctx, "dev"); err != nil || !bytes.Contains(state, []byte(`"serial":1`)) {
			t.Errorf("%s: the current state is %s (%v)", door, state, err)
		}
		got := u.took()
		if !strings.Contains(got, "bob force-unlock app/dev id-of-anna forced") || strings.Contains(got, "anna write") && !strings.Contains(got, "id-of-anna not current") {
			t.Errorf("%s: recorded:\n%s", door, got)
		}
		_ = l.Unlock(ctx)
		if got := u.took(); strings.Contains(got, " unlock ") {
			t.Errorf("%s: the unlock after the end is recorded as\n%s", door, got)
		}
	}
}

// TestClaimThroughDoors sends the id of a registry's lock to other doors: it is its maker's, after
// a restart nobody's. Its client goes on, and force-unlock ends it.
func TestClaimThroughDoors(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		u := newRegistryUse(t, ocitest.Handler(t, ocitest.Quirks{}))
		l := u.lock("anna", "OperationTypeApply")
		if restarted {
			clear(u.front.o.acts.claims)
		}
		const id, state = "id-of-anna", `{"version":4,"serial":%d,"lineage":"a"}`
		send := func(who, method, query, body string) int {
			t.Helper()
			r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/state/app/dev"+query, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+useToken(who))
			w := httptest.NewRecorder()
			u.front.ServeHTTP(w, r)
			return w.Code
		}
		full := `{"ID":"` + id + `","Who":"anna","Operation":"OperationTypeApply","Created":"2026-01-01T00:00:00Z"}`
		store := must.Get(u.front.o.Stores(t.Context(), "app"))(t)
		for _, who := range []string{"bob", "anna"} {
			if who == "anna" && !restarted {
				break
			}
			got := []int{send(who, "LOCK", "", full), send(who, http.MethodPost, "?ID="+id, fmt.Sprintf(state, 7)), send(who, http.MethodDelete, "?ID="+id, ""), send(who, "UNLOCK", "", full)}
			if d := cmp.Diff([]int{423, 403, 403, 403}, got); d != "" {
				t.Errorf("restarted %v: %s sends the id (-want +got):\n%s", restarted, who, d)
			}
			ctx := u.asks(who) // as the cloud API does
			if err := store.Check(ctx, "dev", id); !errors.Is(err, statebackend.ErrAnother) {
				t.Errorf("restarted %v: %s holds the lock: %v", restarted, who, err)
			}
		}
		must.Succeed(t, put(1)(t.Context(), l))
		if !restarted { // the same caller, by another door
			if got := send("anna", http.MethodPost, "?ID="+id, fmt.Sprintf(state, 2)); got != http.StatusOK {
				t.Errorf("the maker's own write is %d", got)
			}
			if got := send("bob", http.MethodPost, "?ID="+id, fmt.Sprintf(state, 7)); got != http.StatusForbidden {
				t.Errorf("a write of another under the lock that both doors have is %d", got)
			}
		}
		if got := send("bob", "UNLOCK", "", `{"ID":"`+id+`"}`); got != http.StatusOK { // as force-unlock sends it
			t.Errorf("restarted %v: force-unlock is %d", restarted, got)
		}
		u.took()
		if got := send("anna", "UNLOCK", "", full); got != http.StatusOK {
			t.Errorf("restarted %v: the end of a lock that has ended is %d", restarted, got)
		} else if got := u.took(); got != "" {
			t.Errorf("restarted %v: the end of a lock that has ended is recorded as %q", restarted, got)
		}
		if err := put(9)(t.Context(), l); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("restarted %v: a write after the end: %v", restarted, err)
		}
	}
}

// TestRecordOfRekey seals a version again, and forges that. With the keys the server tells them
// apart, else both are a push.
func TestRecordOfRekey(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"old", "new"} {
		files = append(files, filepath.Join(dir, name))
		must.Succeed(t, os.WriteFile(files[len(files)-1], bytes.Repeat([]byte(name[:1]), 32), 0o600))
	}
	before := must.Get(envelope.New(envelope.Options{Keys: files[:1]}))(t)
	after := must.Get(envelope.New(envelope.Options{Keys: []string{files[1], files[0]}}))(t)
	ctx := t.Context()
	sealed := func(repo *oci.Repo, with statebackend.Sealer, do func(context.Context, *statebackend.Lock) error) format.StateManifest {
		t.Helper()
		store := statebackend.New(repo, statebackend.Options{Sealer: with})
		l := must.Get(store.Lock(ctx, "dev", statebackend.LockInfo{ID: "id-of-anna", Operation: "push"}))(t)
		must.Succeed(t, do(ctx, l))
		must.Succeed(t, l.Unlock(ctx))
		return must.Get(format.ParseState(depottest.MustFetch(t, repo, "state-dev-v1")))(t)
	}
	const pushed = "anna push app/dev 1 in place of the version, not compared"
	rekey := func(ctx context.Context, l *statebackend.Lock) error { return l.Rekey(ctx, 1) }
	evil := sealed(must.Get(newRegistryUse(t, ocitest.Handler(t, ocitest.Quirks{})).front.o.Client.Repo("state/app"))(t), after, put(66))
	for _, tt := range []struct {
		keys         []statebackend.Sealer
		again, false string
	}{
		{nil, pushed, pushed},
		{[]statebackend.Sealer{after}, "anna rekey app/dev 1", pushed},
	} {
		u := newRegistryUse(t, ocitest.Handler(t, ocitest.Quirks{}), tt.keys...)
		repo := u.open("anna", "state/app")
		sealed(repo, before, put(1))
		u.took()
		s := sealed(repo, after, rekey)
		if got := u.took(); got != tt.again {
			t.Errorf("%d keys: %q, want %q", len(tt.keys), got, tt.again)
		}
		s.Layer, s.Envelope, s.SHA256 = evil.Layer, evil.Envelope, evil.SHA256
		must.Succeed(t, repo.PushBlob(ctx, oci.BytesBlob(evil.Layer.MediaType, evil.Layer.Data)))
		must.Succeed(t, repo.PutTag(ctx, "state-dev-v1", must.Fixed(format.NewStateManifest(s))))
		if got := u.took(); got != tt.false {
			t.Errorf("%d keys: another content is %q, want %q", len(tt.keys), got, tt.false)
		}
	}
}

// claimTag returns the tag of the claim in a repository.
func claimTag(t *testing.T, repo *oci.Repo) string {
	t.Helper()
	list := must.Get(repo.Snapshot(t.Context()))(t)
	return list.Tags[slices.IndexFunc(list.Tags, func(tag string) bool {
		s, ok := format.ParseStateTag(tag)
		return ok && s.Kind == format.LockClaim
	})]
}

// TestManyClaims: too many claims are refused; others' stay.
func TestManyClaims(t *testing.T) {
	u := newRegistryUse(t, ocitest.Handler(t, ocitest.Quirks{}))
	ctx := t.Context()
	u.lock("anna", "OperationTypeApply")
	repo := u.open("bob", "state/app")
	mine := claimTag(t, repo)
	claimOf := func(n int) (string, oci.Manifest) {
		x := format.ClaimX("id-of-bob", uint32(n))
		return format.StateTag{Kind: format.LockClaim, Fragment: "of-bob", N: 1, X: x}.String(),
			must.Fixed(format.NewLockManifest(format.LockManifest{Kind: format.KindClaim, Workspace: "of-bob", Info: format.LockInfo{ID: "id-of-bob"}, Fence: 1, Nonce: x}))
	}
	put := func(n int) error {
		tag, m := claimOf(n)
		return repo.PutTag(ctx, tag, m)
	}
	inner := must.Get(u.front.o.Client.Repo("state/app"))(t)
	must.Succeed(t, put(0))
	var known claim
	for at, c := range u.front.o.acts.claims {
		if at.of != mine {
			known = *c
		}
	}
	for n := 1; n < maxClaims; n++ {
		tag, m := claimOf(n)
		must.Succeed(t, inner.PutTag(ctx, tag, m))
		u.front.o.acts.noteClaim(place{"", "state/app", tag}, place{}, new(known))
	}
	if e, ok := errors.AsType[*oci.ResponseError](put(maxClaims)); !ok || e.Status != http.StatusTooManyRequests {
		t.Errorf("one more is answered %v", e)
	}
	if err := repo.Untag(ctx, mine); err == nil {
		t.Error("the claim of another could be deleted")
	}
	for n := range maxClaims { // through another door
		tag, _ := claimOf(n)
		must.Succeed(t, inner.Untag(ctx, tag))
	}
	must.Succeed(t, put(maxClaims))
	u.front.o.acts.settleDeletions(true)
}

// TestActsOfPublication publishes, and leaves marks of publications without one.
func TestActsOfPublication(t *testing.T) {
	inner := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		u := newRegistryUse(t, inner)
		ctx := t.Context()
		publish := func(who, version string) {
			t.Helper()
			d := depot.New(depot.Options{Client: u.client(who, nil)})
			must.Get(d.PublishModule(ctx, depottest.NewModule("# "+version), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))(t)
		}
		publish("anna", "1.0.0")
		if got := u.took(); got != "anna publish net/vpc/aws 1.0.0" {
			t.Errorf("a publication is\n%s", got)
		}
		d := depot.New(depot.Options{Client: u.client("anna", nil)})
		dist := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
		key := depottest.NewKey(t, signing.KeyOptions{})
		depottest.Sign(t, dist, key)
		o := depot.ProviderOptions{Keys: []signing.PublicKey{depottest.MustPublic(t, key)}}
		must.Get(d.PublishProvider(ctx, dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), o))(t)
		must.Equal(t, "a publication of a provider", u.took(), "anna publish acme/dns 1.2.3")
		must.Get(d.PublishTemplate(ctx, "lab/vpc", depottest.MustVersion(t, "1.0.0"), []byte("{}")))(t)
		must.Equal(t, "a publication of a template", u.took(), "anna publish lab/vpc 1.0.0")
		publish("bob", "1.1.0")
		u.took()
		publish("anna", "1.1.0")
		again := u.open("bob", "modules/net/vpc/aws")
		must.Succeed(t, again.PutTag(ctx, "1.1.0", depottest.MustFetch(t, again, "1.1.0")))
		time.Sleep(actTime + time.Second)
		must.Equal(t, "what is there is published again", u.took(), "")
		repo := u.open("anna", "modules/net/vpc/aws")
		old := depottest.MustFetch(t, repo, "1.0.0")
		must.Get(evidence.AddCosignSignature(ctx, repo, old.Descriptor, evidence.CosignSignature{Payload: []byte("{}"), Signature: []byte("s")}))(t)
		time.Sleep(actTime + time.Second)
		if got, want := u.took(), "anna sign net/vpc/aws of "+old.Digest.String(); got != want {
			t.Errorf("a signature is\n%s, want\n%s", got, want)
		}
		for _, tag := range []string{"latest", "okara-publish-x"} {
			must.Succeed(t, repo.PutTag(ctx, tag, old))
		}
		time.Sleep(actTime + time.Second)
		must.Succeed(t, repo.PutTag(ctx, "okara-time-0000000000000-1.1.0", old))
		time.Sleep(actTime + time.Second)
		if got, want := u.took(), "anna push net/vpc/aws tag okara-time-0000000000000-1.1.0"; !strings.HasSuffix(got, want) {
			t.Errorf("a mark without a publication is %q, want %q", got, want)
		}

		must.Get(probe.Examine(ctx, probe.Options{
			Repository: "okara.test/state/app", Rounds: 2,
			Open: func(_ string, wrap func(http.RoundTripper) http.RoundTripper) (*oci.Repo, error) {
				return u.client("bob", wrap).Repo("state/app")
			},
		}))(t)
		if got := u.took(); got != "" {
			t.Errorf("an examination, of which nothing is left, is\n%s", got)
		}
		m := must.Get(artifact.NewBare("application/vnd.okara.probe.v1", nil))(t)
		must.Succeed(t, u.open("bob", "state/app").PutTag(ctx, "okara-probe-left", m))
		time.Sleep(actTime + time.Second)
		if got := u.took(); got != "bob push app tag okara-probe-left" {
			t.Errorf("a probe that is left is %q", got)
		}
		for _, tag := range []string{"okara-probe-left", "state-dev-v7"} { // of what was recorded, or is no probe by its tag
			must.Succeed(t, u.open("bob", "state/app").PutTag(ctx, tag, m))
			time.Sleep(actTime + time.Second)
			u.took()
			must.Succeed(t, u.open("bob", "state/app").Untag(ctx, tag))
			time.Sleep(actTime + time.Second)
			if got := u.took(); !strings.HasPrefix(got, "bob ") {
				t.Errorf("the end of %s is %q", tag, got)
			}
		}
	})
}

// TestPublisherIsListed: what a publisher pushes is in the catalog without a warning, though he
// may not write that, and a reader is told of it. Rules that apply to everybody are said when
// they are read.
func TestPublisherIsListed(t *testing.T) {
	u := newRegistryUse(t, ocitest.Handler(t, ocitest.Quirks{}))
	var log bytes.Buffer
	u.front.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	u.tokens[0].Scopes = []rights.Scope{must.Get(rights.ParseScope("publish:module:net/**"))(t), must.Get(rights.ParseScope("read:module:**"))(t)}
	u.tokens[1].Scopes = u.tokens[0].Scopes[1:]
	all := access.Rule{Name: "everybody", Allow: u.tokens[1].Scopes}
	must.Succeed(t, u.front.reload(reloaded{policy: access.Policy{Tokens: u.tokens, Rules: []access.Rule{all}}, keys: u.front.o.Keys}))
	if !strings.Contains(log.String(), "apply to every token") || !strings.Contains(log.String(), "everybody") {
		t.Errorf("the log has %s", &log)
	}
	d := depot.New(depot.Options{Client: u.client("anna", nil)})
	out := must.Get(d.PublishModule(t.Context(), depottest.NewModule("# 1"), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{}))(t)
	must.Equal(t, "warnings", len(out.Warnings), 0)
	index := must.Get(u.front.Protocols.Catalog().Published(t.Context()))(t)
	must.Equal(t, "entries of the catalog", fmt.Sprintf("%d %s", len(index.Entries), index.Entries[0].Address), "1 net/vpc/aws")
	must.Match(t, "a reader's list", must.Get(u.client("bob", nil).Repositories(t.Context()))(t), []string{"modules/net/vpc/aws"})
}

// TestCallerInHistory writes over http and /v2/: history names the caller and whom the tool names;
// a repetition adds nothing.
func TestCallerInHistory(t *testing.T) {
	u := newRegistryUse(t, ocitest.Handler(t, ocitest.Quirks{}))
	info := `{"ID":"lock-1","Operation":"OperationTypeApply","Who":"root@vm","Created":"2026-11-22T12:00:00Z"}`
	for _, of := range []struct{ method, query, body string }{
		{"LOCK", "", info}, {http.MethodPost, "?ID=lock-1", `{"version":4,"serial":1,"lineage":"a"}`}, {"UNLOCK", "", info},
	} {
		for range 2 {
			r := httptest.NewRequestWithContext(t.Context(), of.method, "/state/app/dev"+of.query, strings.NewReader(of.body))
			r.Header.Set("Authorization", "Bearer "+useToken("anna"))
			w := httptest.NewRecorder()
			if u.front.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", r.Method, w.Code, w.Body)
			}
		}
	}
	must.Equal(t, "recorded", u.took(), "anna lock app/dev lock-1 apply\nanna write app/dev 1 lock-1 apply\nanna unlock app/dev lock-1")
	bob := u.store("bob")
	must.Succeed(t, bob.Hold(t.Context(), "dev", statebackend.LockInfo{ID: "lock-2", Who: "root@ci"}, func(l *statebackend.Lock) error { return put(2)(t.Context(), l) }))
	var got []string
	for v, err := range bob.History(t.Context(), "dev") {
		must.Succeed(t, err)
		got = append(got, v.By()+" "+v.Who)
	}
	if diff := cmp.Diff([]string{"bob root@ci", "anna root@vm"}, got); diff != "" {
		t.Errorf("who wrote (-want +got):\n%s", diff)
	}
}

// TestHeldPush: a push whose body arrives after another's lock is decided by what is there then. No
// blob of a state is deleted.
func TestHeldPush(t *testing.T) {
	u := newRegistryUse(t, ocitest.Handler(t, ocitest.Quirks{}))
	u.hold("anna", "OperationTypeApply", put(1))
	repo := u.open("bob", "state/app")
	first := depottest.MustFetch(t, repo, "state-dev-v1")
	next := must.Get(format.ParseState(first))(t)
	next.N = 9000
	x := format.ClaimX("id-of-bob", 7)
	of := format.StateTag{Kind: format.LockClaim, Fragment: "dev", N: 900_000, X: x}
	claim := must.Fixed(format.NewLockManifest(format.LockManifest{Kind: format.KindClaim, Workspace: "dev", Info: format.LockInfo{ID: "id-of-bob"}, Fence: of.N, Nonce: x}))
	send := func(method, path string, m oci.Manifest, before func()) int {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, "/v2/state/app/"+path, io.MultiReader(bytes.NewReader(m.Bytes[:9]), late{before}, bytes.NewReader(m.Bytes[9:])))
		r.Header.Set("Authorization", "Bearer "+useToken("bob"))
		r.Header.Set("Content-Type", m.MediaType)
		w := httptest.NewRecorder()
		u.front.ServeHTTP(w, r)
		return w.Code
	}
	for _, tt := range []struct {
		tag  string
		m    oci.Manifest
		want int
	}{
		{"state-dev-v9000", must.Fixed(format.NewStateManifest(next)), http.StatusConflict},
		{"state-dev", first, http.StatusConflict},
		{of.String(), claim, http.StatusCreated}, // beside the lock: it holds nothing
	} {
		var l *statebackend.Lock
		if got := send(http.MethodPut, "manifests/"+tt.tag, tt.m, func() { l = u.lock("anna", "OperationTypeApply") }); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.tag, got, tt.want)
		}
		for _, version := range []int64{1, of.N} { // what was there is no exception
			next.N = version
			next.Serial = 9
			if err := repo.PutTag(t.Context(), fmt.Sprintf("state-dev-v%d", version), must.Fixed(format.NewStateManifest(next))); err == nil {
				t.Errorf("%s: then version %d was written under the lock", tt.tag, version)
			}
		}
		for _, blob := range []oci.Descriptor{next.Layer, artifact.EmptyConfig()} {
			if got := send(http.MethodDelete, "blobs/"+blob.Digest.String(), claim, func() {}); got != http.StatusConflict {
				t.Errorf("delete a blob of the state: %d", got)
			}
		}
		must.Succeed(t, l.Unlock(t.Context()))
	}
	if state, _, err := u.store("anna").Get(t.Context(), "dev"); err != nil || !bytes.Contains(state, []byte(`"serial":1`)) {
		t.Errorf("the current state is %s (%v)", state, err)
	}
}

// TestRevokedWhileSending: what arrives after a revocation changes nothing.
func TestRevokedWhileSending(t *testing.T) {
	inner := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		for _, revoked := range []bool{false, true} {
			u := newRegistryUse(t, inner)
			marker := must.Fixed(format.NewLockManifest(format.LockManifest{Kind: format.KindUnlocked, Workspace: "late"}))
			u.hold("anna", "push", func(context.Context, *statebackend.Lock) error { return nil }) // whose parts are there then
			for _, tt := range []struct{ method, path, body string }{
				{http.MethodPut, "/v2/state/app/manifests/another", string(marker.Bytes)},
				{http.MethodPost, "/state/app/late?force=true", fmt.Sprintf(`{"version":4,"serial":1,"lineage":"%v"}`, revoked)},
			} {
				policy := access.Policy{Tokens: u.tokens}
				must.Succeed(t, u.front.kit.Guard.Replace(policy))
				r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, io.MultiReader(strings.NewReader(tt.body[:5]), late{func() {
					time.Sleep(5 * time.Second)
					if revoked {
						must.Succeed(t, u.front.kit.Guard.Replace(access.Policy{}))
					}
				}}, strings.NewReader(tt.body[5:])))
				r.Header.Set("Authorization", "Bearer "+useToken("bob"))
				r.Header.Set("Content-Type", marker.MediaType)
				w := httptest.NewRecorder()
				u.front.ServeHTTP(w, r)
				if (w.Code < 300) == revoked {
					t.Errorf("%s %s, revoked %v: %d %s", tt.method, tt.path, revoked, w.Code, w.Body)
				}
			}
		}
	})
}

// late is a part of a body without a byte, before which something else happens.
type late struct{ before func() }

func (l late) Read([]byte) (int, error) {
	l.before()
	return 0, io.EOF
}
