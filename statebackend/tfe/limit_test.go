// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// unread is a body that counts how many bytes of it were requested.
type unread struct{ n atomic.Int64 }

func (u *unread) Read(p []byte) (int, error) {
	u.n.Add(int64(len(p)))
	return 0, io.ErrUnexpectedEOF
}

// send sends a request with a body length that need not be sent first.
func (c client) send(method, address string, length int64, body io.Reader) (*http.Response, error) {
	c.t.Helper()
	if !strings.Contains(address, "://") {
		address = c.base + "/api/v2/" + address
	}
	r := must.Get(http.NewRequestWithContext(c.t.Context(), method, address, body))(c.t)
	r.ContentLength = length
	r.Header.Set("Expect", "100-continue") // the body is sent when the server asks for it
	r.Header.Set("Content-Type", "application/vnd.api+json")
	if c.caller != "" {
		r.Header.Set("Authorization", "Bearer "+tokenOf(c.caller))
	}
	return (&http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}).Do(r)
}

// A request that is too large, or without a right, is refused before its body is read.
//
// Shows: cloud 15
// Shows: cloud 28
func TestRefusedBeforeBody(t *testing.T) {
	c := newTool(t, newServer(t, newRegistry(t), setup{}))
	c.create("prod")
	id := c.read("prod")
	c.lock(http.StatusOK, id)
	state, duplicate := c.announce(http.StatusCreated, id, "l", 1).uploads()
	const large = 10 << 20
	for _, tt := range []struct {
		name, method, address string
		caller                string
		length                int64
		status                int
	}{
		{"a state over the limit", "PUT", state, "", 512<<20 + 1, 413},
		{"a twin over the limit", "PUT", duplicate, "", 2<<30 + 1, 413},
		{"a forged address", "PUT", state + "x", "", large, 403},
		{"an announcement over the limit", "POST", "workspaces/" + id + "/state-versions", "ci", 32<<20 + 1, 413},
		{"an announcement without right", "POST", "workspaces/" + id + "/state-versions", "reader", large, 403},
		{"a rollback", "PATCH", "workspaces/" + id + "/state-versions", "ci", large, 413},
		{"a workspace", "POST", "organizations/acme/workspaces", "ci", large, 413},
		{"a change", "PATCH", "workspaces/" + id, "ci", large, 413},
		{"a lock", "POST", "workspaces/" + id + "/actions/lock", "ci", large, 413},
		{"tags", "POST", "workspaces/" + id + "/relationships/tags", "ci", large, 413},
		{"tag bindings", "PATCH", "workspaces/" + id + "/tag-bindings", "ci", large, 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := c.as(tt.caller)
			c.t = t
			body := &unread{}
			resp := must.Get(c.send(tt.method, tt.address, tt.length, body))(t)
			defer resp.Body.Close()
			if resp.StatusCode != tt.status || body.n.Load() > 0 {
				t.Errorf("status %d, want %d; %d bytes of the body were asked for", resp.StatusCode, tt.status, body.n.Load())
			}
		})
	}
}

// Uploads that do not end use up the memory of their own subject only.
//
// Shows: cloud 28 | uploads that never end, downloads that no client reads, large bodies without a
// right
func TestEndlessUploads(t *testing.T) {
	c := newTool(t, newServer(t, newRegistry(t), setup{}))
	c.create("prod")
	c.create("dev")
	id := c.read("prod")
	c.lock(http.StatusOK, id)
	state, _ := c.announce(http.StatusCreated, id, "l", 1).uploads()
	const uploads, refs = 100, 4
	var wg sync.WaitGroup
	refused := make(chan int, uploads)
	t.Cleanup(wg.Wait)
	quiet := newEndless(t) // ends before that
	for range uploads {
		wg.Go(func() {
			resp, err := c.as("").send(http.MethodPut, state, 1<<20, io.MultiReader(strings.NewReader("{"), quiet))
			if err != nil {
				return // disconnected at the end of the test
			}
			defer resp.Body.Close()
			if resp.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			refused <- resp.StatusCode
		})
	}
	for range uploads - refs {
		must.Equal(t, "status", <-refused, http.StatusServiceUnavailable)
	}
	other := c.as("admin")
	own := other.read("dev")
	other.lock(http.StatusOK, own)
	other.write(own, "d", 1)
	other.unlock(http.StatusOK, own)
	other.wantState(own, stateOf("d", 1))
	c.unlock(http.StatusOK, id)
}

// A large state is in memory once while it is stored, whether or not the request gives
// its length.
//
// Shows: cloud 15
func TestMemoryOfUpload(t *testing.T) {
	t.Run("sized", func(t *testing.T) { testMemoryOfUpload(t, 70<<20, 2) })
	t.Run("unsized", func(t *testing.T) { testMemoryOfUpload(t, -1, 3) }) // freed memory may not be collected yet
}

func testMemoryOfUpload(t *testing.T, length int64, copies int64) {
	const size, limit = 70 << 20, 72 << 20
	c := newTool(t, newServer(t, newRegistry(t), setup{change: func(o *tfe.Options) { o.MaxState = limit }}))
	c.create("prod")
	id := c.read("prod")
	c.lock(http.StatusOK, id)
	state := largeState(size)
	body := announced("l", 1, state)
	address, duplicate := c.want(http.StatusCreated, http.MethodPost, "workspaces/"+id+"/state-versions", body).uploads()

	defer debug.SetGCPercent(debug.SetGCPercent(10)) // collect unused memory soon
	runtime.GC()
	before := liveHeap()
	peak, done := watchHeap()
	c.upload(t, duplicate, state, length)
	c.upload(t, address, state, length)
	done()
	used := int64(peak.Load()) - int64(before)
	t.Logf("a state of %d MiB takes %d MiB while it is stored", size>>20, used>>20)
	// The store reserves as much again for the compressed state, of which it touches a tenth here.
	if used > copies*limit+16<<20 {
		t.Errorf("%d bytes are held for a state of %d", used, size)
	}
	must.Match(t, "value", c.current(id).Attributes["serial"], 1.0)
}

// upload uploads without a copy of the body.
func (c client) upload(t *testing.T, address, body string, length int64) {
	t.Helper()
	if length >= 0 {
		length = int64(len(body))
	}
	resp := must.Get(c.as("").send(http.MethodPut, address, length, strings.NewReader(body)))(t)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s, %v", resp.StatusCode, b, err)
	}
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// watchHeap records the peak size of the heap until done is called.
func watchHeap() (peak *atomic.Uint64, done func()) {
	peak = &atomic.Uint64{}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			peak.Store(max(peak.Load(), liveHeap()))
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return peak, func() { close(stop); wg.Wait() }
}

// largeState is a state of about size bytes, with resources as the tools write them.
func largeState(size int) string {
	var b bytes.Buffer
	b.Grow(size + 1<<10)
	b.WriteString(`{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[`)
	const resource = `{"mode":"managed","type":"terraform_data","name":"r","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"attributes":{"id":"0b3c"}}]}`
	for b.WriteString(resource); b.Len() < size; b.WriteString(resource) {
		b.WriteByte(',')
	}
	b.WriteString(`]}`)
	return b.String()
}

// A server with little memory receives large states one after the other, and says when
// to retry.
//
// Shows: cloud 28
func TestNoMemory(t *testing.T) {
	c := newTool(t, newServer(t, newRegistry(t), setup{change: func(o *tfe.Options) { o.Memory = 1 << 20 }}))
	for _, name := range []string{"prod", "dev"} {
		c.create(name)
	}
	id, own := c.read("prod"), c.as("admin").read("dev")
	c.lock(http.StatusOK, id)
	state, _ := c.announce(http.StatusCreated, id, "l", 1).uploads()
	other, _ := c.as("admin").announce(http.StatusCreated, own, "l", 1).uploads()
	begun := make(chan struct{})
	r, w := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		resp, err := c.as("").send(http.MethodPut, state, -1, r) // of unknown length
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		must.Equal(t, "status", resp.StatusCode, http.StatusOK)
	})
	go func() { // returns when the first byte is read
		_, err := w.Write([]byte(stateOf("l", 1)[:1]))
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		close(begun)
	}()
	<-begun
	a := c.put(http.StatusServiceUnavailable, other, stateOf("l", 1))
	if a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), "service unavailable") {
		t.Errorf("header %v: %s", a.header, a.body)
	}
	must.Get(w.Write([]byte(stateOf("l", 1)[1:])))(t)
	w.Close()
	wg.Wait()
	c.put(http.StatusOK, other, stateOf("l", 1))
	c.wantState(id, stateOf("l", 1))
}

// untaken is an answer that its client does not read until the test ends.
type untaken struct {
	http.ResponseWriter
	begun func()
	ended <-chan struct{}
}

func (u untaken) Write([]byte) (int, error) {
	u.begun()
	<-u.ended
	return 0, io.ErrClosedPipe
}

// Downloads whose clients do not read leave room for others.
//
// Shows: cloud 28
func TestUntakenDownloads(t *testing.T) {
	const slow = "X-Slow"
	const size = 2 << 20
	begun, ended := make(chan struct{}, 4), make(chan struct{})
	host := newRegistry(t)
	at := newServer(t, host, setup{
		store: func(o *statebackend.Options) { o.Budget = statebackend.NewBudget(size) }, // enough for one at a time
		wrap: func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(slow) != "" {
					w = untaken{w, func() { begun <- struct{}{} }, ended}
				}
				h.ServeHTTP(w, r)
			})
		},
	})
	c := newTool(t, at)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { close(ended) })
	mustPut(t, openStore(t, host, "acme"), "prod", largeState(size))
	mustPut(t, openStore(t, host, "acme"), "dev", largeState(size))
	for _, caller := range []string{"ci", "admin"} {
		address := c.current(c.read("prod")).Attributes["hosted-state-download-url"].(string)
		wg.Go(func() {
			r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, address, nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+tokenOf(caller))
			r.Header.Set(slow, "yes")
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		})
		select {
		case <-begun:
		case <-time.After(time.Minute):
			t.Fatal("a download that nobody takes keeps another from being read")
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		dev := c.as("dev")
		id := dev.create("dev-b")
		dev.lock(http.StatusOK, id)
		dev.unlock(http.StatusOK, id)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a download that nobody takes keeps a lock from being taken")
	}
}
