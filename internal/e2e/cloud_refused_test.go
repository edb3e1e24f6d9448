// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
)

// spoiled is a fault of a spoiler.
type spoiled int

const (
	sound   spoiled = iota
	denied          // every request is refused
	damaged         // manifests of states do not match their digests
	stale           // tag lists do not change
)

// spoiler is a proxy in front of a registry that causes faults.
type spoiler struct {
	proxy *httputil.ReverseProxy

	mu    sync.Mutex // guards the fields below
	how   spoiled
	lists map[string][]byte // by path, the lists shown while stale
}

func (s *spoiler) set(how spoiled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.how = how
}

func (s *spoiler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	how := s.how
	s.mu.Unlock()
	list, state := strings.HasSuffix(r.URL.Path, "/tags/list"), strings.Contains(r.URL.Path, "/manifests/state-")
	switch {
	case how == denied:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}`)
	case how == damaged && state && r.Method == http.MethodGet, how == stale && list:
		s.spoil(w, r, list)
	default:
		s.proxy.ServeHTTP(w, r)
	}
}

func (s *spoiler) spoil(w http.ResponseWriter, r *http.Request, list bool) {
	answer := httptest.NewRecorder()
	s.proxy.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	if list {
		s.mu.Lock()
		if s.lists[r.URL.Path] == nil {
			s.lists[r.URL.Path] = body
		}
		body = s.lists[r.URL.Path]
		s.mu.Unlock()
	} else {
		body = bytes.Replace(body, []byte(`"schemaVersion"`), []byte(` "schemaVersion"`), 1)
	}
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

// TestCloudRefused gives the tools errors that do not go away by waiting: a registry that
// denies the server, one whose tag lists are unfit for locks, a damaged state. Each is printed
// after one request, nothing is planned, and no lock is left.
//
// Shows: cloud 6 | the registry denies access to the server; a damaged state: both are reported
// after one request
// Shows: cloud 11 | locking refused, a replica, a read-only token: the reason is shown after one
// request
func TestCloudRefused(t *testing.T) { eachTool(t, testCloudRefused) }

func testCloudRefused(t *testing.T, c *cloud) {
	registry := c.registry()
	before := &spoiler{proxy: towards(t, registry), lists: map[string][]byte{}}
	front := inFront(t, before.ServeHTTP)
	_, one := c.serve("one", front, "127.0.0.1:0")
	r := &recorder{proxy: towards(t, one)}
	at := inFront(t, r.ServeHTTP)
	for _, block := range []string{"cloud", `backend "remote"`} {
		folder := strings.Fields(block)[0]
		c.folder(folder, block, `name = "`+folder+`"`, "true")
		c.must(folder, at, "init")
		c.must(folder, at, "apply", "-auto-approve")
		refused := func(at, why, request string, args ...string) {
			t.Helper()
			r.take()
			out, err := c.run(folder, at, append(args, "-no-color", "-var", "text=other")...)
			if err == nil || !strings.Contains(out, why) || strings.Contains(out, "will be ") {
				t.Errorf("%s %v: %v, want %q in\n%s", block, args, err, why, out)
			}
			if sent := strings.Join(r.take(), "\n") + "\n"; strings.Count(sent, request+"\n") != 1 {
				t.Errorf("%s %v: want %s once in\n%s", block, args, request, sent)
			}
		}
		before.set(denied)
		refused(at, "denies this to the account of this server", "GET organizations/acme/workspaces/"+folder, "plan")
		before.set(damaged)
		refused(at, "damaged", "GET workspaces/*/current-state-version", "plan")
		before.set(sound)
		c.unlocked(registry)
	}

	before.set(stale)
	if out, err := c.okara("admin", "doctor", front+"/state/acme"); err == nil {
		t.Fatalf("locks are believed to be safe:\n%s", out)
	}
	before.set(sound)
	_, two := c.serve("two", front, "127.0.0.1:0")
	r = &recorder{proxy: towards(t, two)}
	at = inFront(t, r.ServeHTTP)
	for _, folder := range []string{"cloud", "backend"} {
		out, err := c.run(folder, at, "apply", "-auto-approve", "-no-color", "-lock-timeout=1h", "-var", "text=other")
		if err == nil || !strings.Contains(out, "locking is refused on this registry") {
			t.Errorf("%s: %v\n%s", folder, err, out)
		}
		if sent := strings.Join(r.take(), "\n"); strings.Count(sent, "actions/lock") != 1 {
			t.Errorf("%s: want one lock in\n%s", folder, sent)
		}
		c.must(folder, at, "plan", "-lock=false", "-detailed-exitcode")
	}
}
