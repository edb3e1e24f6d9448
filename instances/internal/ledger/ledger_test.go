// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const host = "registry.test"

// gate is a transport that can be closed, which cuts the process off.
type gate struct {
	http.RoundTripper
	closed atomic.Bool
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.closed.Load() {
		return nil, errors.New("cut off")
	}
	return g.RoundTripper.RoundTrip(r)
}

func plain() *template.Template {
	return &template.Template{
		Name: "sandbox/vpc", Enabled: true, Visible: true, Owner: "user", Approval: "none", Executor: "local",
		TTL:     &template.TTL{Default: 8 * time.Hour, Max: 72 * time.Hour, OnExpire: "destroy"},
		Timeout: 30 * time.Minute, Retries: 2, Update: "manual",
	}
}

var source = template.Source{Module: "net/vpc/aws", Version: "1.0.0", Digest: "sha256:1", Archive: "sha256:2"}

func user(name string) template.Owner {
	return template.Owner{Kind: template.OwnerUser, Issuer: "https://id", ID: name}
}

// launch returns the request of an owner for an instance of a template, with a key.
func launch(t *template.Template, owner, name, key string) lifecycle.Command {
	return lifecycle.Command{
		Event: lifecycle.Create{Template: t, Digest: "sha256:" + t.Name, Source: source, Owner: user(owner), Name: name},
		Actor: lifecycle.Actor{Issuer: "https://id", Subject: owner}, Key: key, Caller: owner, Seed: sha256.Sum256([]byte("seed of " + key)),
	}
}

// create is anna's request with one key; refused for a name that begins with "!".
func create(name string) lifecycle.Command {
	c := launch(plain(), "anna", name, "key of "+name)
	if strings.HasPrefix(name, "!") {
		c.Event = lifecycle.DestroyNow{ID: name}
	}
	return c
}

// replica is one server with a ledger.
type replica struct {
	*ledger.Ledger
	gate  *gate
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu      sync.Mutex
	effects []string // IDs, in the order in which they began
}

func start(t testing.TB, transport http.RoundTripper, o ledger.Options) *replica {
	t.Helper()
	return startAt(t, "acme", transport, o)
}

// startAt starts a replica with a ledger below a prefix.
func startAt(t testing.TB, prefix string, transport http.RoundTripper, o ledger.Options) *replica {
	t.Helper()
	o.InClear = o.Sealer == nil
	return startWith(t, prefix, transport, o, nil)
}

// startWith applies change to the options last.
func startWith(t testing.TB, prefix string, transport http.RoundTripper, o ledger.Options, change func(*ledger.Options)) *replica {
	t.Helper()
	r := &replica{gate: &gate{RoundTripper: transport}}
	client, err := oci.New(host+"/"+prefix, oci.Options{Transport: r.gate, PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	o.Repo = func(number int) (*oci.Repo, error) {
		name := "ledger"
		if number > 1 {
			name = fmt.Sprintf("ledger-%d", number)
		}
		return client.Repo(name)
	}
	behind := repoBehind(t, prefix, transport)
	if o.Machine == nil {
		o.Machine = &lifecycle.Machine{}
	}
	o.Effects = func(_ context.Context, effects []lifecycle.Effect) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range effects {
			if o.Sealer == nil && !moves(o) && !kept(t, behind, e.Ref.ID) {
				t.Errorf("the effect of %s began before it was kept", e.Ref.ID)
			}
			r.effects = append(r.effects, e.Ref.ID)
		}
	}
	if o.Uptime == nil {
		begin := time.Now()
		o.Uptime = func() time.Duration { return time.Since(begin) }
	}
	if change != nil {
		change(&o)
	}
	if r.Ledger, err = ledger.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	r.ended.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// repoBehind returns the first repository of a ledger, by a transport without faults.
func repoBehind(t testing.TB, prefix string, transport http.RoundTripper) *oci.Repo {
	t.Helper()
	switch a := transport.(type) {
	case *armed:
		transport = ocitest.Direct{Handler: a.h}
	case *stopped:
		transport = a.RoundTripper
	case *ocitest.Count:
		transport = a.Base
	case *ocitest.Fault:
		return repoBehind(t, prefix, a.Base)
	}
	return must.Get(oci.OpenRepo(host+"/"+prefix+"/ledger", oci.Options{Transport: transport, PlainHTTP: true}))(t)
}

// moves reports whether a ledger will move to other repositories than the first.
func moves(o ledger.Options) bool { return o.Limits.Roll > 0 }

// kept reports whether a ledger has an instance with a name.
func kept(t testing.TB, repo *oci.Repo, name string) bool {
	b, _, err := statebackend.New(repo, statebackend.Options{StrictReads: true}).Get(t.Context(), "ledger")
	if err != nil && t.Context().Err() == nil {
		t.Error(err)
	}
	return err != nil || bytes.Contains(b, fmt.Appendf(nil, "%q", name))
}

// end stops a replica and waits until it has ended.
func (r *replica) end() {
	r.stop()
	r.ended.Wait()
}

func mustDo(t testing.TB, r *replica, name string, status int) {
	t.Helper()
	if a, err := r.Do(t.Context(), create(name)); err != nil || a.Status != status {
		t.Errorf("create %s: %d, %v, want %d", name, a.Status, err, status)
	}
}

// leads waits until a replica leads.
func leads(t testing.TB, r *replica) {
	t.Helper()
	leader(t, r)
}

func leader(t testing.TB, replicas ...*replica) *replica {
	t.Helper()
	for range 10 * 60 * 10 {
		for _, r := range replicas {
			if v, err := r.View(t.Context()); err == nil && v.Leading {
				return r
			}
		}
		select {
		case <-replicas[0].Changed():
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatal("nobody leads: ", replicas[0].Status().Refused)
	return nil
}

func mustHave(t testing.TB, r *replica, names ...string) {
	t.Helper()
	v, err := r.View(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	got := map[string]int{}
	for _, rec := range v.Document.Records {
		got[rec.Name]++
	}
	want := map[string]int{}
	for _, n := range names {
		want[n] = 1
	}
	must.Match(t, "instances by name", got, want)
}

// One replica leads, the other follows and takes over when the first one ends.
//
// Shows: platform-figures 7 | the time until another replica leads
// Shows: instances 4 | one replica leads, and another takes over when it dies
func TestTwoReplicas(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		keys := [][]byte{[]byte("a key of both")}
		a := start(t, ocitest.Direct{Handler: h}, ledger.Options{Address: "https://a.example.com", AddressKeys: keys})
		leads(t, a)
		b := start(t, ocitest.Direct{Handler: h}, ledger.Options{Address: "https://b.example.com", AddressKeys: keys})
		if v, err := b.View(t.Context()); err == nil {
			t.Errorf("before anything was read: %+v", v)
		}
		time.Sleep(10 * time.Second)
		mustHave(t, b) // nothing is committed yet
		mustDo(t, a, "one", 201)
		mustDo(t, a, "one", 201)
		if _, err := a.Do(t.Context(), create("!")); !errors.Is(err, lifecycle.ErrNotFound) {
			t.Errorf("refused: %v", err)
		}
		time.Sleep(10 * time.Second)
		mustHave(t, b, "one")
		if address, here := b.Leader(t.Context()); address != "https://a.example.com" || here {
			t.Errorf("the follower knows %q, %t", address, here)
		}
		if _, err := b.Do(t.Context(), create("two")); !errors.Is(err, lifecycle.ErrNoLeader) {
			t.Errorf("a command for a follower: %v", err)
		}
		begin := time.Now()
		a.end()
		leads(t, b)
		t.Logf("leader change, clean: %v", time.Since(begin))
		mustHave(t, b, "one")
		mustDo(t, b, "two", 201)
		if _, err := a.Do(t.Context(), create("three")); !errors.Is(err, lifecycle.ErrNoLeader) {
			t.Errorf("a command for who ended: %v", err)
		}
		b.end()
	})
}

// armed is a fault that is activated on demand.
type armed struct {
	*ocitest.Fault
	h  http.Handler
	on atomic.Bool
}

func newArmed(h http.Handler, nth int, do ocitest.Act, dies bool) *armed {
	a := &armed{h: h}
	a.Fault = &ocitest.Fault{Base: ocitest.Direct{Handler: h}, Nth: nth, Do: do, Match: func(*http.Request) bool { return a.on.Load() }}
	if dies { // all later requests fail too
		a.Fault.Base = &ocitest.Fault{Base: ocitest.Direct{Handler: h}, Nth: nth + 1, Times: -1, Do: ocitest.FailBefore, Match: func(*http.Request) bool { return a.on.Load() }}
	}
	return a
}

// ask sends a command to any leader until it succeeds, with its key.
func ask(t *testing.T, name string, replicas ...*replica) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		for _, r := range replicas {
			_, err := r.Do(t.Context(), create(name))
			if err == nil {
				return
			}
			if !errors.Is(err, lifecycle.ErrNoLeader) {
				t.Errorf("create %s: %v", name, err)
			}
		}
	}
	t.Errorf("%s was never answered", name)
}

// checkNext ends one replica and checks the document of the next leader.
func checkNext(t *testing.T, a, b *replica, names ...string) {
	t.Helper()
	a.end()
	for _, n := range names {
		ask(t, n, b) // again
	}
	mustHave(t, b, names...)
	ask(t, "last", b)
	b.end()
}
