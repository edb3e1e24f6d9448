// SPDX-License-Identifier: Apache-2.0

package portaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/webtest"
	"github.com/seed-141914ff/okara/oci"
)

// Results are the results of runs, set by a test.
type Results struct {
	mu        sync.Mutex // guards the fields below
	log       []byte
	outputs   map[string]states.Output
	resources []string
}

// Append extends the log of every run.
func (r *Results) Append(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, text...)
}

// Begin empties the log of every run, as another attempt does.
func (r *Results) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = nil
}

// Log returns what was appended.
func (r *Results) Log(_ context.Context, _ *lifecycle.Record, _ *lifecycle.Run, offset int64) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		return nil, oci.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(bytes.Clone(r.log[min(offset, int64(len(r.log))):]))), nil
}

// Plan returns the same plan for every run.
func (r *Results) Plan(context.Context, *lifecycle.Record, *lifecycle.Run) ([]byte, error) {
	return []byte(planText), nil
}

const planText = `
OpenTofu will perform the following actions:

  # module.web.aws_instance.this["a"] must be replaced
-/+ resource "aws_instance" "this" {
      ~ ami = "ami-1" -> "ami-2" # forces replacement
    }

  # aws_db_instance.main will be destroyed
  # (because aws_db_instance.main is not in configuration)
  - resource "aws_db_instance" "main" {
      - name = "orders" -> null
    }

  # aws_security_group.web will be updated in-place
  ~ resource "aws_security_group" "web" {
      ~ description = "old" -> "new"
    }

  # data.aws_region.here will be read during apply
 <= data "aws_region" "here" {
    }

  # aws_eip.old has moved to aws_eip.new
    resource "aws_eip" "new" {
    }

  # aws_kms_key.main will be removed from the OpenTofu state but will not be destroyed
  . resource "aws_kms_key" "main" {
    }

  # aws_s3_bucket.logs will be imported
  # (imported from "logs")
    resource "aws_s3_bucket" "logs" {
    }

Plan: 1 to import, 1 to add, 1 to change, 2 to destroy, 1 to forget.

Changes to Outputs:
  ~ address = "10.0.0.1" -> (known after apply)
`

// SetOutputs sets the outputs in every state.
func (r *Results) SetOutputs(all map[string]states.Output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outputs = all
}

// SetResources sets the resources in every state.
func (r *Results) SetResources(all ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resources = all
}

// Resources returns the resources of every state.
func (r *Results) Resources(context.Context, *lifecycle.Record) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resources, nil
}

// Outputs returns the outputs of every state.
func (r *Results) Outputs(context.Context, *lifecycle.Record) (map[string]states.Output, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outputs == nil {
		return nil, oci.ErrNotFound
	}
	return r.outputs, nil
}

// Server is an API over a store in memory.
type Server struct {
	*httptest.Server
	Store   *Store
	Catalog *Catalog
	Results *Results
	Issuer  *webtest.Issuer
	Audit   *webtest.Audit
	Kit     *service.Kit
	API     http.Handler
}

// Rules grant rights to instances of lab/* to the groups of the issuer that are named use,
// read, approve and admin.
func Rules(t testing.TB) []access.Rule {
	t.Helper()
	return []access.Rule{
		webtest.Rule(t, "use", "use:instance:lab/*"), webtest.Rule(t, "read", "read:instance:lab/*"), webtest.Rule(t, "approve", "approve:instance:lab/*"),
		webtest.Rule(t, "admin", "admin:instance:**", "admin:template:**"),
	}
}

// NewServer starts an API. Change adjusts its options and the rights of anonymous callers.
func NewServer(t testing.TB, change func(*portal.Options, *access.Policy)) *Server {
	t.Helper()
	s := &Server{Store: NewStore(lifecycle.Limits{}), Catalog: NewCatalog(t, Templates), Results: &Results{}, Issuer: webtest.NewIssuer(t), Audit: &webtest.Audit{}}
	o := portal.Options{Store: s.Store, Machine: s.Store.Machine, Catalog: s.Catalog, Results: s.Results, Rate: 100_000, Streams: service.Pace{Poll: time.Millisecond}}
	policy := access.Policy{Issuers: []access.Issuer{{URL: s.Issuer.URL, Audiences: []string{"okara"}}}, Rules: Rules(t)}
	if change != nil {
		change(&o, &policy)
	}
	keys, err := keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	sessions := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("s"), 32)}}))(t)
	guard := must.Get(access.New(access.Options{
		Policy: policy, Keyring: keys, Audit: slog.New(slog.NewJSONHandler(s.Audit, nil)), Sessions: &access.Sessions{Keyring: sessions, Plain: true},
	}))(t)
	s.Kit = service.New(service.Options{Guard: guard, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	o.Kit = s.Kit
	if s.API, err = portal.New(o); err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(s.API)
	t.Cleanup(s.Close)
	return s
}

// Ask makes a request with a token ("": none), and returns status, header and body of the
// answer. The request body is sent as JSON; "": no body.
func (s *Server) Ask(t testing.TB, token, method, path, body string, header ...string) (int, http.Header, []byte) {
	t.Helper()
	var from io.Reader
	if body != "" {
		from = bytes.NewReader([]byte(body))
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), method, s.URL+"/api/v1/"+path, from))(t)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(s.Client().Do(r))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, resp.Header, b
}

// Want is Ask that expects a status and decodes the answer into v; nil: it is not read.
func (s *Server) Want(t testing.TB, status int, v any, token, method, path, body string, header ...string) {
	t.Helper()
	got, _, b := s.Ask(t, token, method, path, body, header...)
	if got != status {
		t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, b, status)
	}
	if v != nil {
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, b)
		}
	}
}
