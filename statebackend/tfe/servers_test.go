// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

var errNoAnswer = errors.New("no answer")

// network is a way that drops, delays and repeats requests, and delivers some of them late,
// after the sender has given up; it does not repeat LOCK. Without losses it only delays.
type network struct {
	t      *testing.T
	next   http.RoundTripper
	losses bool
	dead   atomic.Bool // nothing passes any more
	late   *sync.WaitGroup
	broken *atomic.Int64
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	send := func() (*http.Response, error) {
		if n.dead.Load() {
			return nil, errNoAnswer
		}
		out := r.Clone(context.WithoutCancel(r.Context()))
		out.Body = io.NopCloser(bytes.NewReader(body))
		resp, err := n.next.RoundTrip(out)
		if n.dead.Load() {
			return nil, errNoAnswer
		}
		return resp, err
	}
	later := func(longest time.Duration) {
		n.late.Go(func() {
			pauseUpTo(longest)
			if resp, err := send(); err == nil {
				resp.Body.Close()
			}
		})
	}
	pauseUpTo(3 * time.Millisecond)
	fate := 100
	if n.losses {
		fate = rand.N(100)
	}
	if fate < 20 {
		n.broken.Add(1)
	}
	lock := r.Method == "LOCK" || strings.HasSuffix(r.URL.Path, "/actions/lock") // see "Limits" of package statebackend
	switch {
	case fate < 4, fate < 8 && lock:
		return nil, errNoAnswer
	case fate < 8:
		later(2 * time.Second)
		return nil, errNoAnswer
	case fate < 12 && !lock:
		later(500 * time.Millisecond)
	case fate < 16:
		if resp, err := send(); err == nil {
			resp.Body.Close()
		}
		return nil, errNoAnswer
	case fate < 20:
		pauseUpTo(time.Second)
	}
	resp, err := send()
	pauseUpTo(3 * time.Millisecond)
	return resp, err
}

// world is a registry with servers in front of it, and clients that contend for one state.
type world struct {
	t        *testing.T
	registry http.Handler
	way      *network // of the clients to any server
	late     sync.WaitGroup
	broken   atomic.Int64

	mu      sync.Mutex // guards the fields below
	servers []*network // to the registry, one for each server
	doors   []http.Handler
	now     int
	history []step
	living  map[string]bool // locks of clients that still run
	locks   int
}

func newWorld(t *testing.T, registry http.Handler, servers int) *world {
	w := &world{t: t, registry: registry, servers: make([]*network, servers), doors: make([]http.Handler, servers), living: map[string]bool{}}
	for i := range servers {
		w.start(i)
	}
	w.way = &network{t: t, next: toAny{w}, losses: true, late: &w.late, broken: &w.broken}
	newTool(t, "http://okara.test").through(toAny{w}).create("prod")
	return w
}

func (c client) through(via http.RoundTripper) client {
	c.via = via
	return c
}

// toAny is a load balancer.
type toAny struct{ w *world }

func (a toAny) RoundTrip(r *http.Request) (*http.Response, error) {
	a.w.mu.Lock()
	i := rand.N(len(a.w.doors))
	door, server := a.w.doors[i], a.w.servers[i]
	a.w.mu.Unlock()
	resp, err := ocitest.Direct{Handler: door}.RoundTrip(r)
	if server.dead.Load() {
		return nil, errNoAnswer
	}
	return resp, err
}

// start starts a server, in place of the one of that number, which is killed.
func (w *world) start(i int) {
	way := w.toRegistry(false)
	cloud, stores := newHandler(w.t, "registry.test", setup{via: way})
	mux := http.NewServeMux()
	mux.Handle("/api/v2/", cloud)
	mux.Handle("/state/", httpbackend.New(httpbackend.Options{Open: stores.open}))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.servers[i] != nil {
		w.servers[i].dead.Store(true)
	}
	w.servers[i], w.doors[i] = way, mux
}

func (w *world) toRegistry(losses bool) *network {
	return &network{t: w.t, next: ocitest.Direct{Handler: w.registry}, losses: losses, late: &w.late, broken: &w.broken}
}

// tick returns the next place in the order of begins and ends.
func (w *world) tick() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	return w.now
}

func (w *world) record(s step) {
	s.ended = w.tick()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, s)
	if s.verb == didLock && s.outcome == done {
		w.locks++
	}
}

// door is how a tool locks, reads, writes and unlocks: status 0 without answer, 423 if held.
type door interface {
	lock(id string) int
	read() (int, string)
	write(id, state string) (status int, answer string)
	unlock(id string) int
}

// send sends a request up to four times, as the tools do after 429, 5xx or no answer.
func (w *world) send(method, url, body string, header ...string) (status int, answer []byte) {
	note := ""
	for range 4 {
		r, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			w.t.Error(err)
			return 0, nil
		}
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if resp, err := w.way.RoundTrip(r); err != nil {
			status = 0
		} else {
			status = resp.StatusCode
			answer, err = io.ReadAll(resp.Body)
			if err != nil {
				w.t.Error(err)
			}
			if status < 500 && status != http.StatusTooManyRequests {
				if status >= 300 {
					answer = append(answer, note...)
				}
				return status, answer
			}
		}
		note = repeatedNote
		time.Sleep(50 * time.Millisecond)
	}
	return status, answer
}

// httpDoor is the backend "http".
type httpDoor struct{ w *world }

const httpAddress = "http://okara.test/state/acme/prod"

func infoOf(id string) string {
	b, _ := json.Marshal(statebackend.LockInfo{ID: id, Who: "test", Operation: "apply", Created: time.Unix(1, 0)}) // has only strings and a time
	return string(b)
}

func (d httpDoor) lock(id string) int {
	status, _ := d.w.send("LOCK", httpAddress, infoOf(id))
	return status
}

func (d httpDoor) read() (int, string) {
	status, answer := d.w.send(http.MethodGet, httpAddress, "")
	return status, string(answer)
}

func (d httpDoor) write(id, state string) (int, string) {
	status, answer := d.w.send(http.MethodPost, httpAddress+"?ID="+id, state)
	return status, string(answer)
}

func (d httpDoor) unlock(id string) int {
	status, _ := d.w.send("UNLOCK", httpAddress, infoOf(id))
	return status
}

// cloudDoor is a command of a cloud block, its lock's ID in the workspace's.
type cloudDoor struct {
	w         *world
	workspace string
}

func (d *cloudDoor) call(method, path string, body any) (int, item, string) {
	text := ""
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			d.w.t.Error(err)
		}
		text = string(b)
	}
	status, answer := d.w.send(method, "http://okara.test/api/v2/"+path, text, "Authorization", "Bearer "+tokenOf("ci"), "Terraform-Version", "1.12.6", "Content-Type", "application/vnd.api+json")
	var doc struct{ Data item }
	if status < 300 {
		_ = json.Unmarshal(answer, &doc) // some have no body
	}
	return status, doc.Data, string(answer)
}

func (d *cloudDoor) lock(string) int {
	status, _, _ := d.call(http.MethodPost, "workspaces/"+d.workspace+"/actions/lock", object{"reason": "test"})
	if status == http.StatusConflict {
		return http.StatusLocked
	}
	return status
}

func (d *cloudDoor) read() (int, string) {
	status, v, _ := d.call(http.MethodGet, "workspaces/"+d.workspace+"/current-state-version", nil)
	if status != http.StatusOK {
		return status, ""
	}
	status, state := d.w.send(http.MethodGet, fmt.Sprint(v.Attributes["hosted-state-download-url"]), "", "Authorization", "Bearer "+tokenOf("ci"))
	return status, string(state)
}

func (d *cloudDoor) write(_, state string) (int, string) {
	status, v, answer := d.call(http.MethodPost, "workspaces/"+d.workspace+"/state-versions", announce(state))
	if status != http.StatusCreated {
		return status, answer
	}
	status, stored := d.w.send(http.MethodPut, fmt.Sprint(v.Attributes["hosted-state-upload-url"]), state)
	return status, string(stored)
}

func (d *cloudDoor) unlock(string) int {
	status, _, _ := d.call(http.MethodPost, "workspaces/"+d.workspace+"/actions/unlock", nil)
	return status
}

// wrapperDoor is okara tofu, whose way to the registry is bad.
type wrapperDoor struct {
	facade http.Handler
	repo   string
	why    *error // of the last refusal, which okara tofu prints
}

func (w *world) wrapper(way *network) wrapperDoor {
	const repo = "registry.test/state/acme"
	var why error
	return wrapperDoor{s3facade.New(s3facade.Options{
		AccessKey: "RUNKEY", Repositories: []string{repo}, TempDir: os.TempDir(), LockNote: func() string { return "" }, MaxState: 1 << 20,
		Failed: func(err error) { why = err },
		Open: func(_ context.Context, p s3facade.Ref) (*statebackend.Store, error) {
			r, err := oci.OpenRepo(p.Repository, oci.Options{Transport: way, PlainHTTP: true})
			if err != nil {
				return nil, err
			}
			return statebackend.New(r, statebackend.Options{}), nil
		},
	}), repo, &why}
}

func (d wrapperDoor) ask(method, object, body string) (int, string) {
	r := httptest.NewRequest(method, "/okara/env:/prod/"+d.repo+"/state"+object, strings.NewReader(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=RUNKEY/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0")
	if object != "" && method == http.MethodPut {
		r.Header.Set("If-None-Match", "*")
	}
	a := httptest.NewRecorder()
	d.facade.ServeHTTP(a, r)
	return a.Code, a.Body.String()
}

func (d wrapperDoor) lock(id string) int {
	status, _ := d.ask(http.MethodPut, ".tflock", infoOf(id))
	if status == http.StatusPreconditionFailed {
		return http.StatusLocked
	}
	return status
}
func (d wrapperDoor) read() (int, string) { return d.ask(http.MethodGet, "", "") }

func (d wrapperDoor) write(_, state string) (int, string) {
	status, _ := d.ask(http.MethodPut, "", state)
	return status, fmt.Sprint(*d.why)
}

func (d wrapperDoor) unlock(string) int {
	status, _ := d.ask(http.MethodDelete, ".tflock", "")
	return status
}

// content is what the tests keep in a state: the values that were written.
type content struct {
	Version int      `json:"version"`
	Serial  int      `json:"serial"`
	Lineage string   `json:"lineage"`
	Values  []string `json:"values"`
}

func (c content) text() string {
	b, _ := json.Marshal(c) // has only strings and numbers
	return string(b)
}

// run is one run of a tool, of the kind and number given, which may be killed on its way.
func (w *world) run(kind string, n int) {
	id := uuid.NewString()
	var d door = httpDoor{w}
	switch kind {
	case "cloud":
		c := &cloudDoor{w: w}
		status, ws, _ := c.call(http.MethodGet, "organizations/acme/workspaces/prod", nil)
		if status != http.StatusOK {
			return
		}
		c.workspace = ws.ID
		// It is the lock that a command with that workspace takes.
		id = "tfe-" + ws.ID[strings.LastIndex(ws.ID, ".")+1:]
		d = c
	case "wrapper":
		way := w.toRegistry(true)
		defer way.dead.Store(true)
		d = w.wrapper(way)
	}
	w.mu.Lock()
	w.living[id] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.living, id)
		w.mu.Unlock()
	}()
	if !w.acquire(d, id) {
		return
	}
	var state content
	for i := range 1 + rand.N(3) {
		if rand.N(40) == 0 {
			return // killed
		}
		s := step{lock: id, verb: didRead, began: w.tick()}
		status, text := d.read()
		switch {
		case status == http.StatusOK:
			state = content{}
			if err := json.Unmarshal([]byte(text), &state); err != nil {
				w.t.Errorf("%s reads %.100s: %v", id, text, err)
			}
			s.outcome, s.seen = done, state.Values
		case status == http.StatusNoContent, status == http.StatusNotFound:
			s.outcome = done
		default:
			s.outcome = unknown
		}
		w.record(s)
		if s.outcome != done {
			break
		}
		pauseUpTo(50 * time.Millisecond) // as provisioners do
		value := fmt.Sprintf("%s-%d-%d", kind, n, i)
		next := content{4, state.Serial + 1, "one", append(slices.Clone(state.Values), value)}
		s = step{lock: id, verb: didWrite, value: value, began: w.tick()}
		switch status, answer := d.write(id, next.text()); {
		case status == http.StatusOK:
			s.outcome = done
		case status == 0, status >= 500, !isRefusal(answer):
			s.outcome = unknown
		default:
			s.outcome, s.answer = refused, answer
		}
		w.record(s)
		if s.outcome != done {
			break
		}
	}
	s := step{lock: id, verb: didUnlock, began: w.tick(), outcome: done}
	if status := d.unlock(id); status >= 300 || status == 0 {
		s.outcome = unknown
	}
	w.record(s)
}

// isRefusal reports whether an answer says that a write does not count: not if an earlier request
// had no answer, nor if the lock had ended, as another copy may have come before, nor if it names
// the version that continues it.
func isRefusal(answer string) bool {
	return !strings.Contains(answer, repeatedNote) && !strings.Contains(answer, "lock no longer held") && !strings.Contains(answer, "from which version") && !strings.Contains(answer, "the next lock decides")
}

const repeatedNote = "(an earlier request had no answer)"

// acquire locks as with -lock-timeout.
func (w *world) acquire(d door, id string) bool {
	for range 100 {
		s := step{lock: id, verb: didLock, began: w.tick(), outcome: refused}
		status := d.lock(id)
		if status == http.StatusOK {
			s.outcome = done
			w.record(s)
			return true
		}
		if status != http.StatusLocked {
			return false
		}
		pauseUpTo(600 * time.Millisecond)
	}
	return false
}

// operate kills servers, and forces locks of the gone, at times of others.
func (w *world) operate(over *atomic.Bool, killed, forced *atomic.Int64) {
	_, stores := newHandler(w.t, "registry.test", setup{via: ocitest.Direct{Handler: w.registry}})
	store, err := stores.open(w.t.Context(), "acme")
	if err != nil {
		w.t.Error(err)
		return
	}
	for !over.Load() {
		pauseUpTo(700 * time.Millisecond)
		if rand.N(3) == 0 {
			w.start(rand.N(len(w.servers)))
			killed.Add(1)
			continue
		}
		held, err := store.Held(w.t.Context(), "prod")
		if err != nil {
			w.t.Error(err)
		}
		if held == nil {
			continue
		}
		id := held.Info.ID
		w.mu.Lock()
		lives := w.living[id]
		w.mu.Unlock()
		if lives && rand.N(10) > 0 {
			continue
		}
		s := step{lock: id, verb: didForce, outcome: unknown, began: w.tick()}
		switch rand.N(3) {
		case 0:
			err = store.ForceUnlock(w.t.Context(), "prod", id)
		case 1:
			body, _ := json.Marshal(map[string]string{"ID": id}) // has only strings
			w.send("UNLOCK", httpAddress, string(body))
		case 2:
			s.lock = "" // whichever is held then
			r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://okara.test/api/v2/workspaces/ws-"+keyOf("acme", "prod")+"/actions/force-unlock", nil)
			r.Header.Set("Authorization", "Bearer "+tokenOf("ci"))
			r.Header.Set("Content-Type", "application/vnd.api+json")
			if resp, err := (toAny{w}).RoundTrip(r); err == nil && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusConflict {
				b, _ := io.ReadAll(resp.Body)
				w.t.Errorf("force-unlock: %d %s", resp.StatusCode, b)
			}
		}
		if _, locked := errors.AsType[*statebackend.LockedError](err); err != nil && !locked && !errors.Is(err, oci.ErrNotFound) {
			w.t.Error(err) // and not that the lock was released meanwhile
		}
		forced.Add(1)
		w.record(s)
	}
}

// TestHistories: http, cloud and okara tofu contend through killed servers behind a bad network,
// with forced locks. See checkHistory.
//
// Shows: servers 2 | histories of runs with `http`, `cloud` and `okara tofu`, two and three servers that
// are killed, requests that are dropped, delayed, repeated and late, locks ended by force: never
// two holders, no acknowledged write is lost, no holder reads an old state, no refused write
// becomes current; 1,000 locks in `make interop`, where each of these happens; LOCK is neither repeated nor late
func TestHistories(t *testing.T) {
	worlds, each := 2, 6
	if text := os.Getenv("OKARA_TEST_LOCKS"); text != "" {
		n := must.Get(strconv.Atoi(text))(t)
		each = 25
		worlds = (n + each - 1) / each
	}
	var locks, killed, forced, broken, writes, judged atomic.Int64
	t.Run("worlds", func(t *testing.T) {
		for i := range worlds {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, ocitest.Handler(t, ocitest.Quirks{NoDelete: i%4 > 1}), 2+i%2)
				began := time.Now()
				var over atomic.Bool
				var clients, operator sync.WaitGroup
				operator.Go(func() { w.operate(&over, &killed, &forced) })
				for c, kind := range []string{"http", "cloud", "wrapper", "http", "cloud"} {
					clients.Go(func() {
						for n := 0; !w.has(each); n++ {
							w.run(kind, 1000*c+n)
						}
					})
				}
				clients.Wait()
				over.Store(true)
				operator.Wait()
				w.late.Wait()
				w.finish()
				wrong := checkHistory(w.history)
				for _, text := range wrong {
					t.Error(text)
				}
				for _, s := range w.history {
					if n := len(s.seen); n > 3 {
						s.seen = s.seen[n-3:]
					}
					if len(wrong) > 0 {
						t.Logf("%+v", s)
					}
					if s.verb == didWrite && s.outcome == done {
						writes.Add(1)
					}
					if s.verb == didWrite && s.outcome == refused {
						judged.Add(1)
					}
				}
				t.Logf("%d locks, %d steps, %.0f s", w.locks, len(w.history), time.Since(began).Seconds())
				locks.Add(int64(w.locks))
				broken.Add(w.broken.Load())
			})
		}
	})
	t.Logf("%d locks, %d acknowledged and %d refused writes, %d locks ended by force, %d servers killed, %d requests broken", locks.Load(), writes.Load(), judged.Load(), forced.Load(), killed.Load(), broken.Load())
	if locks.Load() >= 1000 && (writes.Load() == 0 || judged.Load() == 0 || forced.Load() == 0 || killed.Load() == 0 || broken.Load() == 0) {
		t.Error("something that the histories are about never happened")
	}
}

// has reports whether so many locks were taken.
func (w *world) has(locks int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.locks >= locks
}

// finish reads the state after all steps.
func (w *world) finish() {
	_, stores := newHandler(w.t, "registry.test", setup{via: ocitest.Direct{Handler: w.registry}})
	store := must.Get(stores.open(w.t.Context(), "acme"))(w.t)
	s := step{verb: didRead, outcome: done, began: w.tick()}
	text, _, err := store.Get(w.t.Context(), "prod")
	var state content
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		w.t.Error(err)
	}
	s.seen = state.Values
	w.record(s)
}

// pauseUpTo waits for a random time, as networks and people do.
func pauseUpTo(longest time.Duration) { time.Sleep(rand.N(longest)) }
