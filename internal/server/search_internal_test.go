// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
)

// TestSearchReading shows the progress of reading the catalog to administrators only.
func TestSearchReading(t *testing.T) {
	layout, h := addr.Layout{Prefix: "acme"}, ocitest.Handler(t, ocitest.Quirks{})
	for given, want := range map[string]string{"all": `"complete":false,"reading":{"read":0,"all":1}`, "read": `"complete":false,"results":[]`} {
		synctest.Test(t, func(t *testing.T) {
			hangs := &ocitest.Fault{
				Base: ocitest.Direct{Handler: h}, Times: -1,
				Match: func(r *http.Request) bool {
					return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/"+layout.CatalogRepo()+"/manifests/r-")
				},
				Do: func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
					<-r.Context().Done()
					return nil, r.Context().Err()
				},
			}
			client := must.Get(oci.New("registry.test", oci.Options{PlainHTTP: true, Transport: hangs, Retry: oci.Retry{MaxAttempts: 1}}))(t)
			catalog := must.Get(client.Repo(layout.CatalogRepo()))(t)
			must.Succeed(t, artifact.AddCatalogEntry(t.Context(), catalog, artifact.CatalogEntry{Kind: addr.KindModule, Address: "net/vpc/aws", Repository: "acme/modules/net/vpc/aws"}))
			anonymous := rights.AnonymousAll()
			if given == "read" {
				anonymous = rights.AnonymousRead()
			}
			front := must.Get(New(Options{
				Options: registry.Options{Client: client, Layout: layout}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("s"), 32)}}, Access: access.Policy{Anonymous: anonymous},
			}))(t)
			w := httptest.NewRecorder()
			front.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/v1/search", nil))
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: status %d, want %s in %s", given, w.Code, want, w.Body)
			}
			time.Sleep(time.Minute) // the read continues after its caller has gone
		})
	}
}
