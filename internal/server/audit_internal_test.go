// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// newAudited starts a server with an audit log, and rights of anonymous.
func newAudited(t *testing.T, transport http.RoundTripper, anonymous ...rights.Scope) (*httptest.Server, Options) {
	t.Helper()
	client := must.Get(oci.New("registry.test", oci.Options{Transport: transport, PlainHTTP: true, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	o := Options{
		Options: registry.Options{Client: client, Layout: addr.Layout{Prefix: "acme"}}, Keys: []keyring.Key{{Secret: []byte(strings.Repeat("k", 32))}},
		Access: access.Policy{Anonymous: anonymous}, Metrics: NewMetrics(),
		Stores: newStateStores(backend{client: client}, statebackend.Options{}, slog.New(slog.DiscardHandler)).storeNamed,
	}
	must.Succeed(t, o.keepAuditLog(nil, Env{Logs: Logs{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}}))
	f := must.Get(New(o))(t)
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return srv, o
}

// read reads all parts, since a page waits only a short time for that.
func read(t *testing.T, o Options) {
	t.Helper()
	must.Succeed(t, o.auditLog.Read(t.Context()))
}

func askAudit(t *testing.T, srv *httptest.Server, query string) (*http.Response, string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/api/v1/audit"+query, nil))(t)
	resp := must.Get(srv.Client().Do(req))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp, string(b)
}

// TestAuditFields: each line has the fields that are documented, and there are no others.
func TestAuditFields(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../docs/reference/serve-reference.md"))(t))
	_, table, _ := strings.Cut(page, "| field | | OpenTelemetry |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	fields := map[string]bool{}
	for row := range strings.Lines(table) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			fields[name[1]] = true
		}
	}
	u := newRegistryUse(t, ocitest.Handler(t, ocitest.Quirks{}))
	u.hold("anna", "OperationTypeApply", put(1))
	(&depotRunner{log: slog.New(slog.DiscardHandler), audit: u.front.o.Audit}).logResult(supply.Result{Error: "no"})
	got := map[string]bool{}
	lines := 0
	for d := json.NewDecoder(&u.log); d.More(); lines++ {
		var line map[string]any
		must.Succeed(t, d.Decode(&line))
		for name := range line {
			got[name] = true
		}
	}
	must.Match(t, fmt.Sprintf("the fields of %d lines", lines), got, fields)
}

// TestAuditRoute answers JSON, JSON lines, and CSV.
func TestAuditRoute(t *testing.T) {
	srv, o := newAudited(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})}, rights.AnonymousAll()...)
	for _, address := range []string{"net/vpc/aws", "=net/vpn/aws"} {
		o.Audit.Info("change", "action", "publish", "kind", "module", "address", address, "subject", "anna", "status", 201)
	}
	read(t, o)
	var doc auditDoc
	resp, body := askAudit(t, srv, "?address=net")
	if err := json.Unmarshal([]byte(body), &doc); err != nil || resp.StatusCode != http.StatusOK || doc.Total != 2 || len(doc.Records) != 2 || !doc.Complete || doc.Protected || doc.Waiting != 2 || doc.ReadAt.IsZero() {
		t.Errorf("status %d, %v:\n%s", resp.StatusCode, err, body)
	}
	resp, body = askAudit(t, srv, "?what=decisions&action=admin")
	if err := json.Unmarshal([]byte(body), &doc); err != nil || doc.Total != 2 || doc.Records[0].Decision != "allowed" { // one of them is this request
		t.Errorf("decisions: %d, %v:\n%s", resp.StatusCode, err, body)
	}
	resp, body = askAudit(t, srv, "?format=jsonl")
	if n := strings.Count(body, "\n"); n != 2 || !strings.Contains(resp.Header.Get("Content-Disposition"), `attachment; filename="audit.jsonl"`) {
		t.Errorf("%d lines of JSON, %v", n, resp.Header)
	}
	resp, body = askAudit(t, srv, "?format=csv")
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][4] != "'=net/vpn/aws" || !strings.Contains(resp.Header.Get("Content-Disposition"), `attachment; filename="audit.csv"`) {
		t.Errorf("rows %q, %v, %v", rows, err, resp.Header)
	}
	for _, query := range []string{"?format=xml", "?since=x", "?page=1000", "?what=all"} {
		if resp, body := askAudit(t, srv, query); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d, %s", query, resp.StatusCode, body)
		}
	}
}

// TestAuditRouteRefused lacks the right, or the registry.
func TestAuditRouteRefused(t *testing.T) {
	for _, format := range []string{"", "?format=csv", "?format=jsonl"} {
		srv, _ := newAudited(t, ocitest.Direct{Handler: http.NotFoundHandler()}, rights.AnonymousRead()...)
		if resp, body := askAudit(t, srv, format); resp.StatusCode != http.StatusUnauthorized || strings.Contains(body, "records") {
			t.Errorf("%s: status %d, %s", format, resp.StatusCode, body)
		}
		srv, _ = newAudited(t, &ocitest.Fault{Times: -1, Do: ocitest.Refuse}, rights.AnonymousAll()...)
		want := http.StatusBadGateway
		if format == "" { // answers with the known records, and that they are incomplete
			want = http.StatusOK
		}
		if resp, body := askAudit(t, srv, format); resp.StatusCode != want || format == "" && !strings.Contains(body, `"read_error":true`) {
			t.Errorf("%s without a registry: status %d, %s", format, resp.StatusCode, body)
		}
	}
}

// TestAuditCut: a registry that fails amid a download cuts the connection.
func TestAuditCut(t *testing.T) {
	var outage atomic.Bool
	srv, o := newAudited(t, &ocitest.Fault{Base: ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})}, Times: -1, Do: ocitest.Refuse, Match: func(*http.Request) bool { return outage.Load() }}, rights.AnonymousAll()...)
	queue := must.Get(o.Client.Repo(o.Layout.QueueRepo()))(t)
	line := `,"address":"` + strings.Repeat("x", 900) + "\"}\n"
	for part := 1; part <= 20; part++ { // 17 MB, more than memory holds
		tag := auditlog.AuditTag{Day: time.Now(), ID: strings.Repeat("0", 14) + fmt.Sprintf("%02d", part), Part: 1}
		var text strings.Builder
		fmt.Fprintf(&text, `{"format":1,"tag":%q,"first":1}`+"\n", tag)
		for n := 1; text.Len() < 900<<10; n++ {
			fmt.Fprintf(&text, `{"n":%d%s`, n, line)
		}
		must.Succeed(t, auditlog.PutAudit(t.Context(), queue, nil, tag, []byte(text.String())))
	}
	read(t, o)
	if resp, body := askAudit(t, srv, ""); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"complete":false`) {
		t.Fatalf("status %d, %.300s", resp.StatusCode, body)
	}
	outage.Store(true)
	resp := must.Get(srv.Client().Get(srv.URL + "/api/v1/audit?format=jsonl"))(t)
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("status %d, %d bytes, and nothing says that this is not all", resp.StatusCode, n)
	}
}

// TestAuditAnswerLost: of an act whose record says that it failed, the repetition that finds it
// done has a record too, at any server.
//
// Shows: mistakes 39
func TestAuditAnswerLost(t *testing.T) {
	const lock, state = `{"ID":"lock-1","Operation":"OperationTypeApply","Who":"me","Created":"2026-11-22T12:00:00Z"}`, `{"version":4,"serial":1,"lineage":"a"}`
	version := func(r *http.Request) bool {
		of, ok := format.ParseStateTag(path.Base(r.URL.Path))
		return ok && r.Method == http.MethodPut && of.Kind == format.StateNumbered
	}
	release := func(r *http.Request) bool { return r.Method == http.MethodDelete }
	write := rights.Scope{Action: rights.Write, Kind: "state", Glob: "**"}
	for _, tt := range []struct {
		last                func(*http.Request) bool // what the registry does before it is away
		method, query, body string
		at                  int // the server of the repetition, and of the record
		want                []string
	}{
		{version, http.MethodPost, "?ID=lock-1", state, 1, []string{"write app/prod 1: repeated at another server done"}},
		{nil, "LOCK", "", lock, 1, []string{"lock app/prod repeated at another server done"}},
		{version, http.MethodDelete, "?ID=lock-1", "", 0, []string{"lock app/prod apply done", "write app/prod 1: apply done", "delete app/prod failed", "delete app/prod 3 done"}},
		{release, "UNLOCK", "", lock, 0, []string{"lock app/prod apply done", "unlock app/prod failed", "unlock app/prod done"}},
		{version, http.MethodPost, "?ID=lock-1", state, 0, []string{"lock app/prod apply done", "write app/prod failed", "write app/prod 2: apply done"}},
		{release, http.MethodPost, "", state, 0, []string{"write app/prod 1: write failed", "write app/prod 1: write done"}},
	} {
		failing, away := false, false
		registry := ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})}
		first, firstOptions := newAudited(t, &ocitest.Fault{Base: registry, Times: -1, Match: func(r *http.Request) bool { return failing && (away || tt.last(r)) }, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if away {
				return ocitest.FailBefore(r, next)
			}
			away = true
			return ocitest.FailAfter(r, next)
		}}, write)
		second, secondOptions := newAudited(t, registry, write)
		ask := func(at int, method, query, body string, want int) {
			t.Helper()
			url := []*httptest.Server{first, second}[at].URL
			resp := must.Get(http.DefaultClient.Do(must.Fixed(http.NewRequestWithContext(t.Context(), method, url+"/state/app/prod"+query, strings.NewReader(body)))))(t)
			must.Succeed(t, resp.Body.Close())
			must.Equal(t, method+query, resp.StatusCode, want)
		}
		if tt.query != "" || tt.body == lock {
			ask(0, "LOCK", "", lock, http.StatusOK)
		}
		if tt.method == http.MethodDelete {
			ask(0, http.MethodPost, "?ID=lock-1", state, http.StatusOK)
		}
		if failing = tt.last != nil; failing {
			ask(0, tt.method, tt.query, tt.body, http.StatusServiceUnavailable)
		}
		failing = false
		for range 2 {
			ask(tt.at, tt.method, tt.query, tt.body, http.StatusOK)
		}
		var got []string
		for _, e := range []Options{firstOptions, secondOptions}[tt.at].auditLog.Find(t.Context(), auditlog.Query{}).Entries {
			got = append(got, e.Action+" "+e.Object()+" "+e.Result())
		}
		slices.Reverse(got)
		must.Match(t, "the record", got, tt.want)
	}
}
