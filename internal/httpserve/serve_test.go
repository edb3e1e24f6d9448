// SPDX-License-Identifier: Apache-2.0

package httpserve_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/must"
)

// newServer runs a server until the test's end or stop; done has the result.
func newServer(t *testing.T, o httpserve.Options) (s *httpserve.Server, stop func(), done <-chan error) {
	t.Helper()
	o.Addr = "127.0.0.1:0"
	s = must.Get(httpserve.Listen(o))(t)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { result <- s.Serve(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s, cancel, result
}

func TestDrainEnds(t *testing.T) {
	started := make(chan struct{})
	s, stop, done := newServer(t, httpserve.Options{Drain: time.Millisecond, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
	})})
	go func() {
		if resp, err := http.Get("http://" + s.Addr()); err == nil {
			resp.Body.Close()
		}
	}()
	<-started
	stop()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("got %v, want an error about what was cut off", err)
	}
}

// TestDrainUnused: a connection opened ahead of need is no request.
func TestDrainUnused(t *testing.T) {
	s, stop, done := newServer(t, httpserve.Options{Drain: 3 * time.Second, Handler: http.NotFoundHandler()})
	unused := must.Get(net.Dial("tcp", s.Addr()))(t)
	defer unused.Close()
	resp := must.Get(http.Get(s.URL()))(t) // accepted after the unused connection
	resp.Body.Close()
	stop()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestLog(t *testing.T) {
	var buf bytes.Buffer
	var seen string
	s, stop, done := newServer(t, httpserve.Options{
		Logger:  slog.New(slog.NewTextHandler(&buf, nil)),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Get("X-Request-Id") }),
	})
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/archives/TOKEN-a/file.zip?sig=TOKEN-b", nil))(t)
	req.Header.Set("Authorization", "Bearer TOKEN-c")
	req.Header.Set("X-Request-Id", "from-the-proxy")
	resp := must.Get(http.DefaultClient.Do(req))(t)
	resp.Body.Close()
	if seen != "from-the-proxy" || resp.Header.Get("X-Request-Id") != seen {
		t.Errorf("request ID: handler saw %q, answer has %q", seen, resp.Header.Get("X-Request-Id"))
	}
	req.Header.Set("X-Request-Id", "not a valid id\"")
	resp = must.Get(http.DefaultClient.Do(req))(t)
	resp.Body.Close()
	if seen == "" || strings.Contains(seen, " ") || resp.Header.Get("X-Request-Id") != seen {
		t.Errorf("request ID made: %q", seen)
	}
	stop()
	<-done
	if text := buf.String(); strings.Contains(text, "TOKEN") || !strings.Contains(text, "/archives/-/file.zip") {
		t.Errorf("log:\n%s", text)
	}
}

func TestHeaderLimit(t *testing.T) {
	s, _, _ := newServer(t, httpserve.Options{Handler: http.NotFoundHandler()})
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL(), nil))(t)
	req.Header.Set("X-Big", strings.Repeat("x", 64<<10))
	resp := must.Get(http.DefaultClient.Do(req))(t)
	resp.Body.Close()
	must.Equal(t, "status", resp.StatusCode, http.StatusRequestHeaderFieldsTooLarge)
}

func TestSelfSigned(t *testing.T) {
	dir := t.TempDir()
	ca, cfg := must.GetBoth(httpserve.SelfSigned(dir, []string{"localhost", "127.0.0.1"}))(t)
	first := must.Get(os.ReadFile(ca))(t)
	if info, err := os.Stat(filepath.Join(dir, "ca-key.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the CA's key: %v, %v; want 0600", info, err)
	}
	s, _, _ := newServer(t, httpserve.Options{TLS: cfg, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "safe") })})
	client := newClient(t, httpserve.TransportOptions{CAFile: ca})
	resp := must.Get(client.Get(s.URL()))(t)
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "safe" || resp.ProtoMajor != 2 {
		t.Errorf("got %q over %s", body, resp.Proto)
	}
	if _, err := newClient(t, httpserve.TransportOptions{}).Get(s.URL()); err == nil {
		t.Error("the CA is trusted without being named")
	}
	again, _ := must.GetBoth(httpserve.SelfSigned(dir, []string{"other.example"}))(t)
	if second, err := os.ReadFile(again); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the CA changed at the second start: %v", err)
	}
}

// TestURL checks that the address does not change when serving begins.
func TestURL(t *testing.T) {
	s, _, _ := newServer(t, httpserve.Options{Handler: http.NotFoundHandler()})
	before := s.URL()
	resp := must.Get(http.Get(before))(t)
	resp.Body.Close()
	if after := s.URL(); before != after || before != "http://"+s.Addr() {
		t.Errorf("before %s, after %s, address %s", before, after, s.Addr())
	}
}

func TestListenErrors(t *testing.T) {
	s, _, _ := newServer(t, httpserve.Options{Handler: http.NotFoundHandler()})
	for _, test := range []struct {
		name string
		o    httpserve.Options
		want string
	}{
		{"port taken", httpserve.Options{Addr: s.Addr()}, "address already in use"},
		{"half a certificate", httpserve.Options{Addr: "127.0.0.1:0", TLSCert: "cert.pem"}, "must be set together"},
		{"no such file", httpserve.Options{Addr: "127.0.0.1:0", TLSCert: "none.pem", TLSKey: "none.pem"}, "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := httpserve.Listen(test.o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func newClient(t *testing.T, o httpserve.TransportOptions) *http.Client {
	t.Helper()
	transport := must.Get(httpserve.Transport(o))(t)
	c := &http.Client{Transport: transport}
	t.Cleanup(c.CloseIdleConnections)
	return c
}
