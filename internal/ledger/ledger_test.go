// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/instance"
	"github.com/seed-141914ff/okara/internal/ledger"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const host = "registry.test"

// direct is a transport to a registry in process, without a network, so that
// waits take no time in a synctest bubble. Its Date is that of the bubble.
type direct struct{ h http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	in := r.Clone(r.Context())
	in.RequestURI, in.Host, in.Body = r.URL.RequestURI(), r.URL.Host, http.NoBody
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	w := httptest.NewRecorder()
	d.h.ServeHTTP(w, in)
	resp := w.Result()
	resp.Request = r
	resp.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return resp, nil
}

// gate is a transport that can be closed: the process is cut off.
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

// tiny is a machine with one command, Create: it makes an instance of that name,
// once for each key, or refuses a name that begins with "!".
func tiny(d *instance.Document, c instance.Command, now time.Time) (*instance.Document, []instance.Effect, instance.Answer, error) {
	if now.Before(d.Clock.At) {
		return nil, nil, instance.Answer{}, fmt.Errorf("%v is before %v", now, d.Clock.At)
	}
	next := *d
	next.Clock.At = now
	switch e := c.Event.(type) {
	case instance.Create:
		if strings.HasPrefix(e.Name, "!") {
			return nil, nil, instance.Answer{}, instance.ErrInvalid
		}
		if q := d.Requests[c.Key]; q != nil {
			return d, nil, instance.Answer{Status: 200, Record: d.Records[q.ID], Repeat: true}, nil
		}
		id := fmt.Sprintf("i%d", len(d.Records)+1)
		r := &instance.Record{ID: id, Name: e.Name, Phase: instance.Provisioning, CreatedAt: now}
		next.Records, next.Requests = with(d.Records, id, r), with(d.Requests, c.Key, &instance.Request{ID: id})
		return &next, []instance.Effect{{Kind: instance.StartRun, Ref: instance.Ref{ID: e.Name}}}, instance.Answer{Status: 201, Record: r}, nil
	case instance.ClockHeld:
		next.Clock.Held = e.Reason
	case instance.AcceptClock:
		next.Clock.Held, next.Clock.Accept = "", now
	default:
		return nil, nil, instance.Answer{}, errors.ErrUnsupported
	}
	return &next, nil, instance.Answer{Status: 200}, nil
}

func with[V any](m map[string]V, k string, v V) map[string]V {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]V{}
	}
	m[k] = v
	return m
}

// replica is one server with a ledger.
type replica struct {
	*ledger.Ledger
	gate  *gate
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu      sync.Mutex
	effects []string // ids, in the order in which they began
}

func start(t testing.TB, transport http.RoundTripper, o ledger.Options) *replica {
	t.Helper()
	return startAt(t, "acme", transport, o)
}

// startAt starts a replica whose ledger is below a prefix.
func startAt(t testing.TB, prefix string, transport http.RoundTripper, o ledger.Options) *replica {
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
	o.InClear = o.Sealer == nil
	o.Effects = func(_ context.Context, effects []instance.Effect) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range effects {
			if !kept(t, behind, e.Ref.ID) {
				t.Errorf("the effect of %s began before it was kept", e.Ref.ID)
			}
			r.effects = append(r.effects, e.Ref.ID)
		}
	}
	if o.Uptime == nil {
		begin := time.Now()
		o.Uptime = func() time.Duration { return time.Since(begin) }
	}
	if r.Ledger, err = ledger.New(o); err != nil {
		t.Fatal(err)
	}
	ledger.SetStep(r.Ledger, tiny)
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	r.ended.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// repoBehind is the first ledger, by a way without faults.
func repoBehind(t testing.TB, prefix string, transport http.RoundTripper) *oci.Repo {
	t.Helper()
	if a, ok := transport.(*armed); ok {
		transport = direct{a.h}
	}
	r, err := oci.OpenRepo(host+"/"+prefix+"/ledger", oci.Options{Transport: transport, PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// kept tells whether a ledger has an instance of that name.
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

// kill cuts a replica off, and ends it.
func (r *replica) kill() {
	r.gate.closed.Store(true)
	r.end()
}

func create(name string) instance.Command {
	return instance.Command{Event: instance.Create{Name: name}, Key: "key of " + name}
}

func mustDo(t testing.TB, r *replica, name string, status int) {
	t.Helper()
	a, err := r.Do(t.Context(), create(name))
	if err != nil || a.Status != status {
		t.Errorf("create %s: %d, %v, want %d", name, a.Status, err, status)
	}
}

// leads waits until a replica leads.
func leads(t testing.TB, r *replica) {
	t.Helper()
	for {
		changed := r.Changed()
		if v, err := r.View(t.Context()); err == nil && v.Leading {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("it never led")
		}
	}
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
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("instances by name (-want +got):\n%s", d)
	}
}

// One leads, the other follows and takes over when the first one ends.
func TestTwoReplicas(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		keys := [][]byte{[]byte("a key of both")}
		a := start(t, direct{h}, ledger.Options{Address: "https://a.example.com", AddressKeys: keys})
		leads(t, a)
		b := start(t, direct{h}, ledger.Options{Address: "https://b.example.com", AddressKeys: keys})
		mustDo(t, a, "one", 201)
		mustDo(t, a, "one", 200)
		if _, err := a.Do(t.Context(), create("!")); !errors.Is(err, instance.ErrInvalid) {
			t.Errorf("refused: %v", err)
		}
		time.Sleep(10 * time.Second)
		mustHave(t, b, "one")
		if address, here := b.Leader(t.Context()); address != "https://a.example.com" || here {
			t.Errorf("the follower knows %q, %t", address, here)
		}
		if _, err := b.Do(t.Context(), create("two")); !errors.Is(err, instance.ErrNoLeader) {
			t.Errorf("a command for a follower: %v", err)
		}
		begin := time.Now()
		a.end()
		leads(t, b)
		t.Logf("leader change, clean: %v", time.Since(begin))
		mustHave(t, b, "one")
		mustDo(t, b, "two", 201)
		if _, err := a.Do(t.Context(), create("three")); !errors.Is(err, instance.ErrNoLeader) {
			t.Errorf("a command for who ended: %v", err)
		}
		b.end()
	})
}
