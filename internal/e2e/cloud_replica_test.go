// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// towards forwards requests to a server, without logging when it is down.
func towards(t testing.TB, addr string) *httputil.ReverseProxy {
	t.Helper()
	to := must(url.Parse("http://" + addr))(t)
	return &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
}

// inFront returns the address of a handler in front of servers.
func inFront(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	front := httptest.NewServer(h)
	t.Cleanup(front.Close)
	return strings.TrimPrefix(front.URL, "http://")
}

// TestCloudUploadCut kills the server when a state is uploaded, before it arrived and after it
// was stored. The tool gets no answer, repeats the request, and succeeds.
//
// Shows: cloud 8
func TestCloudUploadCut(t *testing.T) { eachTool(t, testCloudUploadCut) }

func testCloudUploadCut(t *testing.T, c *cloud) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored=%t", stored), func(t *testing.T) {
			c := newCloud(t, c.set, c.tool)
			registry := c.registry()
			server, addr := c.serve("one", registry, "127.0.0.1:0")
			proxy, killed := towards(t, addr), make(chan struct{})
			var once sync.Once
			at := inFront(t, func(w http.ResponseWriter, r *http.Request) {
				cut := false
				if r.Method == http.MethodPut {
					once.Do(func() { cut = true })
				}
				if !cut {
					proxy.ServeHTTP(w, r)
					return
				}
				if stored {
					answer := httptest.NewRecorder()
					proxy.ServeHTTP(answer, r)
					if answer.Code != http.StatusOK {
						t.Errorf("the upload is answered %d", answer.Code)
					}
				}
				server.kill()
				close(killed)
				panic(http.ErrAbortHandler) // the connection ends without an answer
			})
			c.folder("app", `backend "remote"`, `name = "shop"`, "true") // this backend uploads once
			c.must("app", at, "init")
			done := make(chan ended, 1)
			go func() {
				out, err := c.run("app", at, "apply", "-auto-approve")
				done <- ended{out, err}
			}()
			select {
			case <-killed:
			case e := <-done:
				t.Fatalf("the apply ended without an upload: %v\n%s", e.err, e.out)
			}
			c.serve("two", registry, addr)
			if e := <-done; e.err != nil {
				t.Errorf("%v\n%s", e.err, e.out)
			}
			history := must(c.okara("state", "history", registry+"/state/acme", "-w", "shop", "--json"))(t)
			if got := strings.Count(history, `"operation": "tfe.v2"`); got != 1 { // apart from the seal of the server that took over
				t.Errorf("the state was stored %d times, want once:\n%s", got, history)
			}
			c.unlocked(registry)
			c.must("app", at, "plan", "-detailed-exitcode")
		})
	}
}
