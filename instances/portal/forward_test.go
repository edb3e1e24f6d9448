// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/service"
)

// TestForward forwards a request unchanged, once, and returns its answer.
func TestForward(t *testing.T) {
	leader, follower := newReplica(t, nil), newReplica(t, nil)
	leader.leads(leader.URL, true)
	follower.leads(leader.URL, false)
	leader.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/api/v1/instances/x")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id":"x"}`)
	}
	resp, body := ask(t, http.MethodPost, follower.URL+"/api/v1/instances?a=b;c&d=%2f", `{"template":"a/b"}`,
		"Authorization", "Bearer oks_anna_secret", api.IdempotencyKey, "k1", "Content-Type", "application/json",
		"X-Forwarded-For", "203.0.113.7", "X-Request-Id", "r1", "Connection", "X-Hopped", "X-Hopped", "1")
	if resp.StatusCode != http.StatusAccepted || body != `{"id":"x"}` || resp.Header.Get("Location") != "/api/v1/instances/x" {
		t.Errorf("answer %d %q %v", resp.StatusCode, body, resp.Header)
	}
	seen, bodies := leader.took()
	if len(seen) != 1 || bodies[0] != `{"template":"a/b"}` {
		t.Fatalf("%d requests, %q", len(seen), bodies)
	}
	got := map[string]string{"url": seen[0].RequestURI, "host": seen[0].Host, "method": seen[0].Method}
	for _, name := range []string{"Authorization", api.IdempotencyKey, "Content-Type", service.HopHeader, "X-Forwarded-For", "X-Request-Id", "X-Hopped"} {
		got[name] = strings.Join(seen[0].Header.Values(name), ",")
	}
	want := map[string]string{
		"url": "/api/v1/instances?a=b;c&d=%2f", "host": strings.TrimPrefix(follower.URL, "http://"), "method": "POST",
		"Authorization": "Bearer oks_anna_secret", api.IdempotencyKey: "k1", "Content-Type": "application/json", service.HopHeader: "1",
		// The client is not a trusted proxy, so its X-Forwarded-For is not passed on.
		"X-Forwarded-For": "127.0.0.1", "X-Request-Id": "r1", "X-Hopped": "",
	}
	must.Match(t, "request", got, want)

	resp, _ = ask(t, http.MethodGet, leader.URL+"/api/v1/me", "")
	if seen, _ := leader.took(); resp.StatusCode != http.StatusAccepted || len(seen) != 2 {
		t.Errorf("the leader itself: %d, %d requests", resp.StatusCode, len(seen))
	}
}

// TestForwardOneHop: replicas that are wrong about the leader make no circle.
func TestForwardOneHop(t *testing.T) {
	a, b := newReplica(t, nil), newReplica(t, nil)
	a.leads(b.URL, false)
	b.leads(a.URL, false)
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		resp, body := ask(t, method, a.URL+"/api/v1/instances", "", api.IdempotencyKey, "k1")
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "2" {
			t.Errorf("%s: %d %v", method, resp.StatusCode, resp.Header)
		}
		if wantKey := method == http.MethodPost; strings.Contains(body, "no leader available; retry with key k1, it is applied once") != wantKey {
			t.Errorf("%s: %s", method, body)
		}
	}
	if a.asked.Load() != 2 || b.asked.Load() != 2 {
		t.Errorf("a was asked %d times and b %d times, want 2 each", a.asked.Load(), b.asked.Load())
	}
	a.leads(a.URL, false)
	if resp, _ := ask(t, http.MethodPost, a.URL+"/api/v1/instances", ""); resp.StatusCode != http.StatusServiceUnavailable || a.asked.Load() != 4 {
		t.Errorf("its own address: %d after %d requests", resp.StatusCode, a.asked.Load())
	}
}

// TestForwardForeign shows that a token is sent to no unverified address: none without TLS
// beyond loopback, none with an untrusted certificate, and no redirect target.
//
// Shows: platform-attacks 1
// Shows: instances 11 | a token is sent only to replicas that have proven their identity
func TestForwardForeign(t *testing.T) {
	var stolen atomic.Int64
	thief := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) })
	selfSigned := httptest.NewTLSServer(thief)
	defer selfSigned.Close()
	plain := httptest.NewServer(thief)
	defer plain.Close()
	port := plain.Listener.Addr().(*net.TCPAddr).Port
	dialed := atomic.Int64{}
	follower := newReplica(t, func(o *portal.ForwardOptions) {
		o.Transport = &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "leader.example:") || strings.HasPrefix(address, "10.0.0.5:") {
				dialed.Add(1)
				address = fmt.Sprintf("127.0.0.1:%d", port)
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}
	})
	for _, address := range []string{
		"", "http://leader.example:80", "http://10.0.0.5:80", "ftp://127.0.0.1", "//127.0.0.1", plain.URL + "/deeper",
		strings.Replace(plain.URL, "http://", "http://user:pass@", 1), plain.URL + "?x", selfSigned.URL, "http://[::1",
	} {
		follower.leads(address, false)
		resp, _ := ask(t, http.MethodPost, follower.URL+"/api/v1/instances", "{}", "Authorization", "Bearer secret")
		must.Equal(t, address, resp.StatusCode, http.StatusServiceUnavailable)
	}
	if stolen.Load() != 0 || dialed.Load() != 0 {
		t.Errorf("%d requests and %d connections to addresses that nobody proved", stolen.Load(), dialed.Load())
	}

	leader := newReplica(t, nil)
	leader.leads(leader.URL, true)
	leader.answer = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+"/take", http.StatusTemporaryRedirect)
	}
	follower.leads(leader.URL, false)
	if resp, _ := ask(t, http.MethodPost, follower.URL+"/api/v1/instances", "{}", "Authorization", "Bearer secret"); resp.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("redirect: %d", resp.StatusCode)
	}
	if stolen.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// TestForwardTLS forwards to a replica whose certificate is verified, and without TLS if
// that is allowed.
//
// Shows: instances 11
func TestForwardTLS(t *testing.T) {
	leader := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer leader.Close()
	follower := newReplica(t, func(o *portal.ForwardOptions) { o.Transport = leader.Client().Transport })
	follower.leads(leader.URL, false)
	if resp, body := ask(t, http.MethodDelete, follower.URL+"/api/v1/instances/x", ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	other := newReplica(t, func(o *portal.ForwardOptions) {
		o.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: leader.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "other.example"}}
	})
	other.leads(leader.URL, false)
	if resp, _ := ask(t, http.MethodDelete, other.URL+"/api/v1/instances/x", ""); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a certificate for another name: %d", resp.StatusCode)
	}
	for _, tt := range []struct {
		address string
		plain   bool
		ok      bool
	}{
		{"https://10.0.0.5:8443", false, true}, {"http://10.0.0.5:8443", false, false}, {"http://10.0.0.5:8443", true, true},
		{"http://127.0.0.1:1", false, true}, {"http://localhost:1", false, true}, {"http://localhost.example:1", false, false},
		{"https://u@10.0.0.5", true, false}, {"https://10.0.0.5/x", true, false}, {"10.0.0.5:8443", true, false},
	} {
		if _, err := portal.CheckPeer(tt.address, tt.plain); (err == nil) != tt.ok {
			t.Errorf("%s, plain %t: %v", tt.address, tt.plain, err)
		}
	}
}

// TestForwardCopy answers reads from the copy, with its age.
func TestForwardCopy(t *testing.T) {
	silent := newReplica(t, nil) // it no longer leads, and says so
	silent.leads("", false)
	for _, tt := range []struct {
		name, address string
	}{{"nobody listens", gone(t)}, {"nobody known", ""}, {"no longer the leader", silent.URL}} {
		t.Run(tt.name, func(t *testing.T) {
			follower := newReplica(t, nil)
			follower.leads(tt.address, false)
			resp, body := ask(t, http.MethodGet, follower.URL+"/api/v1/instances", "")
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "2" || resp.Header.Get(portal.AsOfHeader) != "" {
				t.Errorf("without a copy: %d %s", resp.StatusCode, body)
			}
			follower.mu.Lock()
			follower.known = true
			follower.mu.Unlock()
			resp, _ = ask(t, http.MethodGet, follower.URL+"/api/v1/instances", "")
			if resp.StatusCode != http.StatusCreated || resp.Header.Get("X-Own") != "yes" || resp.Header.Get(portal.AsOfHeader) != "2027-01-01T12:00:00Z" {
				t.Errorf("with a copy: %d %v", resp.StatusCode, resp.Header)
			}
			resp, body = ask(t, http.MethodPost, follower.URL+"/api/v1/instances", "{}", api.IdempotencyKey, "a key\u00a0that lies")
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "2" || strings.Contains(body, "lies") {
				t.Errorf("a change: %d %s", resp.StatusCode, body)
			}
			if seen, _ := follower.took(); len(seen) != 1 {
				t.Errorf("%d requests were answered here, want the GET alone", len(seen))
			}
		})
	}
}

// TestForwardLost: a change without answer is not repeated; its key tells.
func TestForwardLost(t *testing.T) {
	leader, follower := newReplica(t, nil), newReplica(t, nil)
	leader.leads(leader.URL, true)
	follower.leads(leader.URL, false)
	leader.answer = func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
	resp, body := ask(t, http.MethodPost, follower.URL+"/api/v1/instances", "{}", api.IdempotencyKey, "k1")
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "retry with key k1") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if seen, _ := leader.took(); len(seen) != 1 {
		t.Errorf("the leader got it %d times", len(seen))
	}
}

// TestForwardRefuses checks what is refused without asking a leader.
func TestForwardRefuses(t *testing.T) {
	leader := newReplica(t, nil)
	leader.leads(leader.URL, true)
	follower := newReplica(t, func(o *portal.ForwardOptions) {
		o.Refuse = func(r *http.Request) error {
			if r.Header.Get("Authorization") == "" {
				return &access.Refusal{Status: http.StatusUnauthorized, Text: "token required"}
			}
			return nil
		}
	})
	follower.leads(leader.URL, false)
	for _, tt := range []struct {
		name    string
		body    string
		headers []string
		want    int
	}{
		{"no token", "{}", nil, 401},
		{"too large", strings.Repeat("x", 64<<10+1), []string{"Authorization", "Bearer x"}, 413},
		{"another protocol", "", []string{"Authorization", "Bearer x", "Connection", "Upgrade", "Upgrade", "websocket"}, 400},
		{"as large as it may be", strings.Repeat("x", 64<<10), []string{"Authorization", "Bearer x"}, 201},
	} {
		resp, body := ask(t, http.MethodPost, follower.URL+"/api/v1/instances", tt.body, tt.headers...)
		if resp.StatusCode != tt.want {
			t.Errorf("%s: %d %s", tt.name, resp.StatusCode, body)
		}
	}
	// A body of unknown length.
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, follower.URL+"/api/v1/instances", io.MultiReader(strings.NewReader(strings.Repeat("x", 64<<10+1)))))(t)
	r.Header.Set("Authorization", "Bearer x")
	resp := must.Get(http.DefaultClient.Do(r))(t)
	resp.Body.Close()
	must.Equal(t, "chunked and too large", resp.StatusCode, http.StatusRequestEntityTooLarge)
	if leader.asked.Load() != 1 {
		t.Errorf("the leader was asked %d times, want once", leader.asked.Load())
	}
}

// TestForwardLimit: waiting requests leave slots, streams take none, events pass at once.
//
// Shows: platform-attacks 14
func TestForwardLimit(t *testing.T) {
	leader, follower := newReplica(t, nil), newReplica(t, nil)
	leader.leads(leader.URL, true)
	follower.leads(leader.URL, false)
	release := make(chan struct{})
	var waiting sync.WaitGroup
	var arrived atomic.Int64
	reached := make(chan struct{}, 100)
	leader.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		arrived.Add(1)
		reached <- struct{}{}
		<-release
		w.WriteHeader(http.StatusNoContent)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 40 { // more than the number of slots: they are released
		r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, follower.URL+"/api/v1/events", nil))(t)
		resp := must.Get(http.DefaultClient.Do(r))(t)
		defer resp.Body.Close()
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "data: 1\n" {
			t.Fatalf("stream: %q, %v", line, err)
		}
	}
	const client = 32 // half of the slots belong to one client
	for range client {
		waiting.Go(func() {
			resp, _ := ask(t, http.MethodPost, follower.URL+"/api/v1/instances", "{}")
			must.Equal(t, "one that waited", resp.StatusCode, http.StatusNoContent)
		})
	}
	for range client {
		<-reached
	}
	if resp, body := ask(t, http.MethodPost, follower.URL+"/api/v1/instances", "{}"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "too many") {
		t.Errorf("one too many: %d %s", resp.StatusCode, body)
	}
	close(release)
	waiting.Wait()
	if resp, _ := ask(t, http.MethodPost, follower.URL+"/api/v1/instances", "{}"); resp.StatusCode != http.StatusNoContent {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
	must.Equal(t, "changes reached the leader", arrived.Load(), client+1)
}

// TestForwardRoles shows what a portal and a runner answer themselves: a portal nothing, a
// runner only forwarded requests.
//
// Shows: platform 1 | the API does not touch the engine | roles: a portal forwards requests, the
// leader runs them
func TestForwardRoles(t *testing.T) {
	runner := newReplica(t, func(o *portal.ForwardOptions) { o.Runner = true })
	runner.leads(runner.URL, true)
	front := newReplica(t, func(o *portal.ForwardOptions) { o.Own, o.View = nil, nil })
	front.leads(runner.URL, false)
	if resp, _ := ask(t, http.MethodGet, runner.URL+"/api/v1/me", ""); resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a runner that is asked itself: %d", resp.StatusCode)
	}
	if resp, _ := ask(t, http.MethodGet, front.URL+"/api/v1/me", ""); resp.StatusCode != http.StatusCreated {
		t.Errorf("through a portal: %d", resp.StatusCode)
	}
	front.leads(gone(t), false)
	if resp, _ := ask(t, http.MethodGet, front.URL+"/api/v1/me", ""); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get(portal.AsOfHeader) != "" {
		t.Errorf("a portal without a leader: %d", resp.StatusCode)
	}
	if resp, _ := ask(t, http.MethodGet, front.URL+"/api/v1/me", "", service.HopHeader, "1"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("what is handed on to a portal: %d", resp.StatusCode)
	}
	front.leads("", true)
	if resp, _ := ask(t, http.MethodGet, front.URL+"/api/v1/me", ""); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a portal that is said to lead: %d", resp.StatusCode)
	}
}

// TestForwardSlow: a slow body holds up nobody, a part is not forwarded.
func TestForwardSlow(t *testing.T) {
	leader, follower := newReplica(t, nil), newReplica(t, nil)
	leader.leads(leader.URL, true)
	follower.leads(leader.URL, false)
	ctx, cancel := context.WithCancel(t.Context())
	slow, feed := io.Pipe()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, follower.URL+"/api/v1/instances", slow))(t)
	done := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	must.Get(feed.Write([]byte(`{"template":`)))(t)
	if resp, _ := ask(t, http.MethodPost, follower.URL+"/api/v1/instances", "{}"); resp.StatusCode != http.StatusCreated {
		t.Errorf("beside a slow one: %d", resp.StatusCode)
	}
	cancel()
	_ = feed.CloseWithError(context.Canceled)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the slow one: %v", err)
	}
	if leader.asked.Load() != 1 {
		t.Errorf("the leader was asked %d times, want once: half a body is none", leader.asked.Load())
	}
}
