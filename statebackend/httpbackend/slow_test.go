// SPDX-License-Identifier: Apache-2.0

package httpbackend_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// slowWriter takes the first bytes of a body when it is told to.
type slowWriter struct {
	*httptest.ResponseRecorder
	began, proceed chan struct{}
}

func (w slowWriter) Write(b []byte) (int, error) {
	close(w.began)
	<-w.proceed
	return len(b), nil
}

// TestSlowClients: a client that sends or takes a large state slowly keeps nobody else from theirs,
// although the store has memory for one such state.
func TestSlowClients(t *testing.T) {
	const size = 2 << 20
	repo := must.Get(oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/infra/state", oci.Options{PlainHTTP: true}))(t)
	store := statebackend.New(repo, statebackend.Options{StrictReads: true, Budget: statebackend.NewBudget(size)})
	server := httpbackend.New(httpbackend.Options{MaxState: 2 * size, Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }})
	slow := server.Noting("slow", nil)
	client := func(s *httpbackend.Server, w http.ResponseWriter, method, workspace string, body io.Reader, length int64) {
		r := httptest.NewRequestWithContext(t.Context(), method, "/state/app/"+workspace, body)
		r.ContentLength = length
		s.ServeHTTP(w, r)
	}
	want := func(method, workspace, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		client(server.Noting("quick", nil), w, method, workspace, strings.NewReader(body), int64(len(body)))
		if w.Code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, workspace, w.Code, w.Body)
		}
	}
	var letters strings.Builder // which do not compress
	for r := rand.New(rand.NewPCG(1, 2)); letters.Len() < size; {
		letters.WriteByte(byte('!' + 2 + r.IntN(56)))
	}
	large := strings.Replace(stateOf("a", 1), `"outputs":{}`, `"outputs":{"x":{"type":"string","value":"`+letters.String()+`"}}`, 1)
	if len(large) < size {
		t.Fatalf("the state has %d bytes", len(large))
	}
	want(http.MethodPost, "large", large)
	for name, length := range map[string]int64{"known length": int64(len(large)), "unknown length": -1} {
		t.Run("sends, "+name, func(t *testing.T) {
			body, feed := io.Pipe()
			w := httptest.NewRecorder()
			done := make(chan struct{})
			go func() {
				defer close(done)
				client(slow, w, http.MethodPost, "slow", body, length)
			}()
			must.Get(feed.Write([]byte(large[:10])))(t) // taken: it is at the body
			want(http.MethodPost, "small", stateOf("b", 1))
			must.Get(feed.Write([]byte(large[10:])))(t)
			must.Succeed(t, feed.Close())
			<-done
			if w.Code != http.StatusOK {
				t.Errorf("the slow one: %d %s", w.Code, w.Body)
			}
		})
	}
	t.Run("many at once", func(t *testing.T) { // of one client, as of a job for each folder: they wait for each other
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				w := httptest.NewRecorder()
				client(slow, w, http.MethodPost, "many"+strconv.Itoa(i), strings.NewReader(large), int64(len(large)))
				if w.Code != http.StatusOK {
					t.Errorf("%d: %d %s", i, w.Code, w.Body)
				}
			})
		}
		all.Wait()
	})
	t.Run("takes", func(t *testing.T) {
		w := slowWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			client(slow, w, http.MethodGet, "large", http.NoBody, 0)
		}()
		<-w.began
		want(http.MethodGet, "large", "")
		close(w.proceed)
		<-done
	})
}
