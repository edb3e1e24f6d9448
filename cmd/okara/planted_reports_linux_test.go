// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Secrets of the notices: the key of the signature, and a token in the receiver's address.
const (
	plantedNotify = "planted-secret-of-notices-4b8e"
	plantedHook   = "planted-address-of-notices-c3d0"
)

// reports collects what is reported of instances while they live: by a receiver of notices,
// which fails the first time, and by readers of event streams.
type reports struct {
	receiver *httptest.Server
	streams  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	notices [][]byte   // with their headers
	kinds   []string
	wrong   []string          // about notices
	events  map[string][]byte // by reader
}

func newReports(t *testing.T) *reports {
	t.Helper()
	n := &reports{events: map[string][]byte{}}
	n.receiver = httptest.NewServer(n)
	t.Cleanup(n.receiver.Close)
	return n
}

// address returns the configured address of the receiver.
func (n *reports) address() string { return n.receiver.URL + "/hook?token=" + plantedHook }

func (n *reports) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var notice struct{ Kind string }
	if err == nil {
		err = json.Unmarshal(body, &notice)
	}
	signature := r.Header.Get("Okara-Signature")
	at, sum, _ := strings.Cut(signature, ",v1=")
	mac := hmac.New(sha256.New, []byte(plantedNotify))
	mac.Write([]byte(strings.TrimPrefix(at, "t=") + "."))
	mac.Write(body)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil || sum != hex.EncodeToString(mac.Sum(nil)) || r.URL.Query().Get("token") != plantedHook {
		n.wrong = append(n.wrong, fmt.Sprintf("%v, signature %q of %s at %s", err, signature, body, r.URL))
	}
	n.notices = append(n.notices, fmt.Appendf(body, "\n%v", r.Header))
	if len(n.notices) == 1 { // so that the failure is in the log
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	n.kinds = append(n.kinds, notice.Kind)
}

// stream reads a stream of the server until it ends; also gets what has been read so far.
func (w *planted) stream(t *testing.T, who, path string, also io.Writer) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.url+path, nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	r.Header.Set("Accept", "text/event-stream")
	if who == w.session {
		r.Header.Set("Cookie", who)
	} else {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.TeeReader(resp.Body, also)) // the server may end the stream at any time
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %s", path, resp.StatusCode, b)
	}
	return b
}

// listen opens event streams for all named callers until the server ends.
func (w *planted) listen(t *testing.T) {
	t.Helper()
	for name, who := range w.callers() {
		if who == "" {
			continue
		}
		w.reports.streams.Go(func() { w.stream(t, who, "/api/v1/events", ear{w.reports, name}) })
	}
}

// ear stores what one caller hears.
type ear struct {
	reports *reports
	name    string
}

func (e ear) Write(b []byte) (int, error) {
	e.reports.mu.Lock()
	defer e.reports.mu.Unlock()
	e.reports.events[e.name] = append(e.reports.events[e.name], b...)
	return len(b), nil
}

// hears waits until all listeners got a text: a stream may be one poll behind, and of an ended
// instance only the end is reported.
func (w *planted) hears(t *testing.T, text string) {
	t.Helper()
	all := func() bool {
		w.reports.mu.Lock()
		defer w.reports.mu.Unlock()
		for _, b := range w.reports.events {
			if !bytes.Contains(b, []byte(text)) {
				return false
			}
		}
		return len(w.reports.events) > 0
	}
	for end := time.Now().Add(5 * time.Minute); !all() && time.Now().Before(end); { // heard reports who did not get it
		time.Sleep(100 * time.Millisecond)
	}
}

// Parts of events.
const (
	extended  = `"action":"extended"`
	destroyed = `"phase":"destroyed"`
)

// noticed waits until the receiver got kinds of events.
func (w *planted) noticed(t *testing.T, kinds ...string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		w.reports.mu.Lock()
		had := slices.Clone(w.reports.kinds)
		w.reports.mu.Unlock()
		if !slices.ContainsFunc(kinds, func(kind string) bool { return !slices.Contains(had, kind) }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("notices %q, want %q; log:\n%s", had, kinds, w.server.log)
		}
	}
}

// heard checks everything that was reported, after the server has ended.
func (w *planted) heard(t *testing.T) {
	t.Helper()
	w.reports.streams.Wait()
	w.reports.mu.Lock()
	defer w.reports.mu.Unlock()
	for _, text := range w.reports.wrong {
		t.Error(text)
	}
	for _, notice := range w.reports.notices {
		w.clean(t, "a notice", notice)
	}
	for name, b := range w.reports.events {
		if !bytes.Contains(b, []byte(extended)) || !bytes.Contains(b, []byte(destroyed)) {
			t.Errorf("%s did not hear all: %s", name, b)
		}
		w.clean(t, "events for "+name, b)
	}
}
