// SPDX-License-Identifier: Apache-2.0

package httpbackend_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// client sends the http backend's requests to a workspace of one server.
type client struct {
	t         *testing.T
	base      string // URL of the server
	workspace string
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (c client) do(method, query, body string, header ...string) answer {
	c.t.Helper()
	u := c.base + "/state/app/" + url.PathEscape(c.workspace)
	if query != "" {
		u += "?" + query
	}
	req := must.Get(http.NewRequestWithContext(c.t.Context(), method, u, strings.NewReader(body)))(c.t)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		sum := md5.Sum([]byte(body))
		req.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(http.DefaultClient.Do(req))(c.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(c.t)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(b)}
}

// want sends a request and checks the status.
func (c client) want(status int, method, query, body string) answer {
	c.t.Helper()
	a := c.do(method, query, body)
	if a.status != status {
		c.t.Fatalf("%s ?%s %.60s: status %d, want %d: %s", method, query, body, a.status, status, a.body)
	}
	return a
}

func (c client) wantState(state string) {
	c.t.Helper()
	must.Match(c.t, "state", c.want(http.StatusOK, http.MethodGet, "", "").body, state)
}

// lockBody is the body of LOCK and UNLOCK as both tools send it.
func lockBody(id string) string {
	b, _ := json.Marshal(statebackend.LockInfo{
		ID: id, Operation: "OperationTypeApply", Who: "alice@host", Version: "1.12.6",
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	})
	return string(b)
}

func stateOf(lineage string, serial int) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":%q,"outputs":{},"resources":[]}`, serial, lineage)
}

// newServer serves like a process of its own.
func newServer(t *testing.T, host string) string {
	t.Helper()
	store := newStore(t, host, nil)
	return serve(t, httpbackend.Options{Open: func(_ context.Context, name string) (*statebackend.Store, error) {
		if name != "app" {
			return nil, fmt.Errorf("state %q: %w", name, oci.ErrNotFound)
		}
		return store, nil
	}})
}

func serve(t *testing.T, o httpbackend.Options) string {
	t.Helper()
	s := httptest.NewServer(httpbackend.New(o))
	t.Cleanup(s.Close)
	return s.URL
}

func newStore(t *testing.T, host string, transport http.RoundTripper) *statebackend.Store {
	t.Helper()
	r := must.Get(oci.OpenRepo(host+"/infra/state", oci.Options{PlainHTTP: true, Transport: transport}))(t)
	return statebackend.New(r, statebackend.Options{Tool: "test", StrictReads: true})
}

func TestStates(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := client{t, newServer(t, host), "default"}
		if a := c.want(http.StatusNoContent, http.MethodGet, "", ""); a.body != "" {
			t.Errorf("204 with body %q", a.body)
		}
		one, two := stateOf("a", 1), stateOf("a", 2)
		c.want(http.StatusOK, http.MethodPost, "", one)
		c.wantState(one)
		a := c.want(http.StatusOK, http.MethodHead, "", "")
		sum := md5.Sum([]byte(one))
		must.Equal(t, "Content-MD5", a.header.Get("Content-MD5"), base64.StdEncoding.EncodeToString(sum[:]))
		c.want(http.StatusOK, http.MethodPost, "", one) // repeated
		c.want(http.StatusOK, http.MethodPut, "", two)  // update_method = "PUT"
		c.wantState(two)
		must.Equal(t, "versions after two states and one repetition", len(versions(t, host, "default")), 2)
		c.want(http.StatusOK, http.MethodDelete, "", "")
		gone := c.want(http.StatusNotFound, http.MethodGet, "", "")
		if !strings.Contains(gone.body, `workspace \"default\" of state \"app\" was removed by Go-http-client/1.1 at 2`) || !strings.Contains(gone.body, "by version 3") {
			t.Errorf("a removed workspace: %s", gone.body)
		}
		c.want(http.StatusOK, http.MethodDelete, "", "") // repeated
		c.want(http.StatusOK, http.MethodPost, "", stateOf("b", 1))
		c.wantState(stateOf("b", 1))
	})
}

func versions(t *testing.T, host, ws string) []statebackend.Version {
	t.Helper()
	var list []statebackend.Version
	for v, err := range newStore(t, host, nil).History(t.Context(), ws) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

func TestLocks(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := client{t, newServer(t, host), "default"}
		mine, theirs := lockBody("lock-1"), lockBody("lock-2")
		c.want(http.StatusOK, "LOCK", "", mine)
		c.want(http.StatusOK, "LOCK", "", mine) // repeated
		held := c.want(http.StatusLocked, "LOCK", "", theirs)
		must.Match(t, "lock information of the holder", strings.TrimSpace(held.body), mine)
		c.want(http.StatusLocked, http.MethodPost, "", stateOf("a", 1))
		c.want(http.StatusConflict, http.MethodPost, "ID=lock-2", stateOf("a", 1))
		c.want(http.StatusLocked, http.MethodDelete, "", "")
		c.want(http.StatusNoContent, http.MethodGet, "", "")
		c.want(http.StatusOK, http.MethodPost, "ID=lock-1", stateOf("a", 1))
		c.want(http.StatusOK, http.MethodPost, "ID=lock-1", stateOf("a", 1)) // repeated
		c.want(http.StatusOK, http.MethodPost, "ID=lock-1", stateOf("a", 2))
		c.want(http.StatusLocked, "UNLOCK", "", theirs)
		c.want(http.StatusOK, "UNLOCK", "", mine)
		c.want(http.StatusOK, "UNLOCK", "", mine) // repeated
		c.want(http.StatusOK, "LOCK", "", theirs)
		c.want(http.StatusOK, "UNLOCK", "", theirs)
		c.wantState(stateOf("a", 2))
		for i, v := range versions(t, host, "default") {
			if want := int64(2 - i); v.N != want {
				t.Errorf("version %d, want %d: a repetition or a clean hand-over jumped", v.N, want)
			}
		}
	})
}

func TestForceUnlock(t *testing.T) {
	for name, body := range map[string]string{
		"OpenTofu sends the ID":   `{"ID":"lock-1","Operation":"","Info":"","Who":"","Version":"","Created":"0001-01-01T00:00:00Z","Path":""}`,
		"Terraform sends nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			host := ocitest.New(t, ocitest.Quirks{})
			c := client{t, newServer(t, host), "default"}
			c.want(http.StatusOK, "LOCK", "", lockBody("lock-1"))
			c.want(http.StatusOK, http.MethodPost, "ID=lock-1", stateOf("a", 1))
			c.want(http.StatusOK, "UNLOCK", "", body)
			c.want(http.StatusConflict, http.MethodPost, "ID=lock-1", stateOf("a", 2))
			c.wantState(stateOf("a", 1))
			c.want(http.StatusNotFound, "UNLOCK", "", body)
			c.want(http.StatusOK, "LOCK", "", lockBody("lock-2"))
			c.want(http.StatusOK, http.MethodPost, "ID=lock-2", stateOf("a", 2))
			c.want(http.StatusOK, "UNLOCK", "", lockBody("lock-2"))
		})
	}
}

// TestKilledInAWrite: a temporary lock that a kill left ends after the longest write, never a
// run's.
func TestKilledInAWrite(t *testing.T) {
	left := statebackend.LockInfo{ID: "left", Operation: "write", Info: "http request without a lock", Who: "curl"}
	ocitest.Each(t, func(t *testing.T, host string) {
		c := client{t, newServer(t, host), "default"}
		for _, tt := range []struct {
			info     string
			age      time.Duration
			refused  bool
			by, body string
		}{
			{left.Info, 10 * time.Minute, false, http.MethodPost, stateOf("a", 1)},
			{left.Info, 10 * time.Minute, false, "LOCK", lockBody("mine")},
			{left.Info, time.Minute, true, http.MethodPost, stateOf("a", 2)},
			{"of a run", 24 * time.Hour, true, http.MethodPost, stateOf("a", 2)},
		} {
			killed, held := newStore(t, host, nil), left
			held.Info, held.Created = tt.info, time.Now().Add(-tt.age)
			must.Get(killed.Lock(t.Context(), "default", held))(t)
			want := http.StatusOK
			if tt.refused {
				want = http.StatusLocked
			}
			c.want(want, tt.by, "", tt.body)
			switch {
			case tt.refused:
				c.want(http.StatusOK, "UNLOCK", "", "")
			case tt.by == "LOCK":
				c.want(http.StatusOK, "UNLOCK", "", tt.body)
			}
		}
		c.wantState(stateOf("a", 1))
	})
}

// TestUnlockAnswerLost repeats an UNLOCK whose answer was lost, while the next run already
// holds the lock. The repetition succeeds, and the next run keeps its lock.
//
// Shows: servers 5 | an `UNLOCK` whose response is lost while the next run already holds the lock
func TestUnlockAnswerLost(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		a, b := client{t, newServer(t, host), "default"}, client{t, newServer(t, host), "default"}
		mine, next := lockBody(uuid.NewString()), lockBody(uuid.NewString())
		a.want(http.StatusOK, "LOCK", "", mine)
		a.want(http.StatusOK, "UNLOCK", "", mine)
		b.want(http.StatusOK, "LOCK", "", next)
		a.want(http.StatusOK, "UNLOCK", "", mine)
		b.want(http.StatusOK, "UNLOCK", "", mine)
		a.want(http.StatusLocked, "LOCK", "", lockBody("another"))
		b.want(http.StatusOK, "UNLOCK", "", next)
	})
}

func TestOrderOfStates(t *testing.T) {
	encrypted := func(lineage string, serial int) string {
		return fmt.Sprintf(`{"serial":%d,"lineage":%q,"meta":{"key_provider.pbkdf2.k":"e30="},"encrypted_data":"AAAA%d","encryption_version":"v0"}`, serial, lineage, serial)
	}
	for name, state := range map[string]func(string, int) string{"clear": stateOf, "encrypted by OpenTofu": encrypted} {
		t.Run(name, func(t *testing.T) {
			c := client{t, newServer(t, ocitest.New(t, ocitest.Quirks{})), "default"}
			c.want(http.StatusOK, http.MethodPost, "", state("a", 5))
			c.want(http.StatusConflict, http.MethodPost, "", state("a", 4))
			c.want(http.StatusConflict, http.MethodPost, "", state("b", 6))
			c.want(http.StatusConflict, http.MethodPost, "", strings.Replace(state("a", 5), "}", " }", 1))
			c.wantState(state("a", 5))
			c.want(http.StatusOK, http.MethodPost, "", state("a", 7))
			c.want(http.StatusOK, http.MethodPost, "force=true", state("b", 1))
			c.wantState(state("b", 1))
		})
	}
}

func TestWorkspacesStayApart(t *testing.T) {
	server := newServer(t, ocitest.New(t, ocitest.Quirks{}))
	names := []string{"prod", "prod-v2", "ws-abc", strings.Repeat("w", 200), "Ünïcode/with spaces", "a+b", "100%", "?x=1"}
	for i, name := range names {
		client{t, server, name}.want(http.StatusOK, http.MethodPost, "", stateOf(name, i+1))
	}
	for i, name := range names {
		client{t, server, name}.wantState(stateOf(name, i+1))
	}
}

func TestRefusedRequests(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	store := newStore(t, host, nil)
	var log bytes.Buffer
	base := serve(t, httpbackend.Options{
		MaxState: 1000, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Open: func(_ context.Context, name string) (*statebackend.Store, error) {
			switch name {
			case "app":
				return store, nil
			case "denied":
				return nil, oci.ErrDenied
			case "limited":
				return nil, fmt.Errorf("%w: %w", oci.ErrRateLimited, &oci.ResponseError{Status: 429, RetryAfter: 3 * time.Second})
			}
			return nil, oci.ErrNotFound
		},
	})
	good := client{t, base, "default"}
	good.want(http.StatusOK, http.MethodPost, "", stateOf("a", 1))
	tests := []struct {
		name, method, path, body string
		status                   int
	}{
		{"unknown state", "GET", "/state/other/default", "", 404},
		{"no workspace", "GET", "/state/app", "", 404},
		{"empty workspace", "GET", "/state/app/", "", 404},
		{"too many segments", "GET", "/state/app/default/x", "", 404},
		{"parent directory", "GET", "/state/app/..", "", 404},
		{"escaped parent directory", "GET", "/state/app/%2e%2e", "", 404},
		{"control character", "GET", "/state/app/a%00b", "", 404},
		{"not UTF-8", "GET", "/state/app/%ff", "", 404},
		{"another prefix", "GET", "/v1/app/default", "", 404},
		{"method", "PATCH", "/state/app/default", "", 405},
		{"denied", "GET", "/state/denied/default", "", 403},
		{"limited", "GET", "/state/limited/default", "", 429},
		{"HTML as state", "POST", "/state/app/default", "<html></html>", 400},
		{"truncated state", "POST", "/state/app/default", stateOf("a", 2)[:60], 400},
		{"no state", "POST", "/state/app/default", `{"serial":2}`, 400},
		{"empty state", "POST", "/state/app/default", "", 400},
		{"large state", "POST", "/state/app/default", `{"serial":2,"lineage":"a","x":"` + strings.Repeat("x", 1000) + `"}`, 413},
		{"lock without an ID", "LOCK", "/state/app/default", `{"Who":"me"}`, 400},
		{"lock that is no JSON", "LOCK", "/state/app/default", `<lock/>`, 400},
		{"large lock", "LOCK", "/state/app/default", `{"ID":"` + strings.Repeat("x", 70_000) + `"}`, 413},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := must.Get(http.NewRequestWithContext(t.Context(), tt.method, base+tt.path, strings.NewReader(tt.body)))(t)
			resp := must.Get(http.DefaultClient.Do(req))(t)
			defer resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Fatalf("status %d, want %d", resp.StatusCode, tt.status)
			}
			var doc struct{ Errors []string }
			if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil || len(doc.Errors) != 1 {
				t.Errorf("body is not {\"errors\":[…]}: %v, %v", doc, err)
			}
			if tt.status == 405 && resp.Header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if tt.status == 429 && resp.Header.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
		})
	}
	if a := good.do(http.MethodPost, "", stateOf("a", 2), "Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="); a.status != 400 {
		t.Errorf("wrong Content-MD5: status %d", a.status)
	}
	good.want(http.StatusOK, "LOCK", "", lockBody("lock-1"))
	good.want(http.StatusLocked, "UNLOCK", "", `{"ID":"lock-2"}`)
	good.want(http.StatusOK, "UNLOCK", "", `{"ID":"lock-1"}`)
	if ended := `"lock removed by force-unlock" state=app workspace=default lock=`; strings.Count(log.String(), ended) != 1 || !strings.Contains(log.String(), ended+"lock-1\n") {
		t.Errorf("the log says which locks were ended:\n%s", log.String())
	}
	good.wantState(stateOf("a", 1))
}

// TestBrokenRegistry: an answer that is no registry's is never "no state".
func TestBrokenRegistry(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	client{t, newServer(t, host), "default"}.want(http.StatusOK, http.MethodPost, "", stateOf("a", 1))
	for name, fault := range map[string]*ocitest.Fault{
		"HTML":    {Times: -1, Do: ocitest.Respond("text/html", "<html>sign in</html>")},
		"refused": {Times: -1, Do: ocitest.Refuse},
		"cut":     {Times: -1, Do: ocitest.CutBody},
	} {
		t.Run(name, func(t *testing.T) {
			r := must.Get(oci.OpenRepo(host+"/infra/state", oci.Options{
				PlainHTTP: true, Transport: fault, Retry: oci.Retry{MaxAttempts: 1},
			}))(t)
			store := statebackend.New(r, statebackend.Options{})
			c := client{t, serve(t, httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }}), "default"}
			for _, a := range []answer{
				c.do(http.MethodGet, "", ""), c.do(http.MethodPost, "", stateOf("a", 2)), c.do("LOCK", "", lockBody("x")),
			} {
				if a.status < 500 {
					t.Errorf("status %d: %s", a.status, a.body)
				}
			}
		})
	}
	client{t, newServer(t, host), "default"}.wantState(stateOf("a", 1))
}

// TestLateLock: a LOCK that a proxy repeats after its UNLOCK does not, for an hour, make a
// lock that is never released; other clients do not have to wait for it.
//
// Shows: servers 6 | a `LOCK` that is repeated after its `UNLOCK`
func TestLateLock(t *testing.T) {
	const id = "7a1c9e02-4a55-4d0e-9c55-2f6d8a0b1c3d"
	r := must.Get(oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/infra/state", oci.Options{PlainHTTP: true}))(t)
	now := time.Now()
	store := statebackend.New(r, statebackend.Options{Now: func() time.Time { return now }})
	c := client{t, serve(t, httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }}), "default"}
	c.want(http.StatusOK, "LOCK", "", lockBody(id))
	c.want(http.StatusOK, http.MethodPost, "ID="+id, stateOf("a", 1))
	c.want(http.StatusOK, "UNLOCK", "", lockBody(id))
	c.want(http.StatusConflict, "LOCK", "", lockBody(id))
	if held, err := store.Held(t.Context(), "default"); held != nil || err != nil {
		t.Errorf("held: %+v, %v", held, err)
	}
	c.want(http.StatusOK, "LOCK", "", lockBody("another"))
	c.want(http.StatusOK, "UNLOCK", "", lockBody("another"))
	now = now.Add(61 * time.Minute)
	c.want(http.StatusOK, "LOCK", "", lockBody(id))
}

// as is a server of the store in a process of its own, for one caller.
func as(t *testing.T, store *statebackend.Store, caller string) client {
	t.Helper()
	s := httpbackend.New(httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(statebackend.WithCaller(r.Context(), caller, "")))
	}))
	t.Cleanup(server.Close)
	return client{t, server.URL, "app"}
}

// TestAnotherCaller: who sends the id of another's lock, shown in 423, holds nothing, at any
// server. The same caller does.
func TestAnotherCaller(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		one, two, three := newStore(t, host, nil), newStore(t, host, nil), newStore(t, host, nil)
		const id = "lock-1"
		sum := sha256.Sum256([]byte(id))
		others := []client{as(t, one, "mallory"), as(t, two, "mallory"), as(t, three, "mallory")}
		refused := func() {
			t.Helper()
			for i, c := range others {
				for _, id := range []string{id, hex.EncodeToString(sum[:4]) + strings.Repeat("0", 56)} {
					for request, want := range map[string]struct{ method, query, body string }{
						"lock": {"LOCK", "", lockBody(id)}, "unlock": {"UNLOCK", "", lockBody(id)},
						"write": {http.MethodPost, "ID=" + id, stateOf("a", 9)}, "delete": {http.MethodDelete, "ID=" + id, ""},
					} {
						status := http.StatusForbidden
						if request == "lock" {
							status = http.StatusLocked
						}
						if a := c.do(want.method, want.query, want.body); a.status != status || !strings.Contains(a.body, "lock-1") {
							t.Errorf("server %d: %s with %s: %d %s, want %d", i, request, id, a.status, a.body, status)
						}
					}
				}
			}
		}
		as(t, one, "alice").want(http.StatusOK, "LOCK", "", lockBody(id))
		refused()
		as(t, two, "alice").want(http.StatusOK, http.MethodPost, "ID="+id, stateOf("a", 1))
		refused()
		as(t, one, "alice").want(http.StatusOK, http.MethodPost, "ID="+id, stateOf("a", 2))
		as(t, three, "alice").want(http.StatusOK, "LOCK", "", lockBody(id))
		refused()
		as(t, three, "alice").want(http.StatusOK, "UNLOCK", "", lockBody(id))

		as(t, two, "").want(http.StatusOK, "LOCK", "", lockBody("lock-2")) // as an older server
		as(t, three, "alice").want(http.StatusOK, http.MethodPost, "ID=lock-2", stateOf("a", 3))
		as(t, one, "alice").want(http.StatusOK, "UNLOCK", "", lockBody("lock-2"))

		as(t, one, "alice").want(http.StatusOK, "LOCK", "", lockBody("lock-3"))
		others[1].want(http.StatusOK, "UNLOCK", "", `{"ID":"lock-3"}`)
		as(t, two, "alice").want(http.StatusConflict, http.MethodPost, "ID=lock-3", stateOf("a", 4))
		others[2].wantState(stateOf("a", 3))
	})
}
