// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// Callers of a site with states.
const (
	nobody    = ""
	reader    = "reader"    // read:state:shop
	publisher = "publisher" // publish:module:**
	admin     = "admin"     // everything
	wrong     = "wrong"     // read:state:other
	partly    = "partly"    // read:state:shop/default and of every state the workspace "none"
)

func callerToken(caller string) string { return "oks_" + caller + "_" + strings.Repeat("x", 24) }

// stateSite serves the pages of states over a registry of this test alone.
type stateSite struct {
	site
	states *states.States
	audit  *bytes.Buffer // the records of the guard
	now    time.Time

	findings []web.Finding // of the doctor
	auditLog *auditlog.Log // of all replicas
	records  *slog.Logger  // to the audit log
	depots   depotDouble
}

// newStateSite starts a site. Callers without a token have the rights anonymous.
func newStateSite(t testing.TB, anonymous ...rights.Scope) *stateSite {
	t.Helper()
	return newStateSiteWithout(t, web.Parts{}, anonymous...)
}

// newStateSiteWithout starts a site with some parts off.
func newStateSiteWithout(t testing.TB, off web.Parts, anonymous ...rights.Scope) *stateSite {
	t.Helper()
	host := ocitest.New(t, ocitest.Quirks{})
	s := &stateSite{audit: &bytes.Buffer{}, now: time.Now()}
	s.layout, s.count = addr.Layout{Prefix: "acme"}, &ocitest.Count{}
	s.client = mustClient(t, host, oci.Options{PlainHTTP: true})
	policy := access.Policy{Anonymous: anonymous}
	for caller, scopes := range map[string][]rights.Scope{
		reader:    {{Action: rights.Read, Kind: addr.KindState, Glob: "shop"}},
		publisher: {{Action: rights.Publish, Kind: addr.KindModule, Glob: "**"}},
		admin:     rights.AnonymousAll(),
		wrong:     {{Action: rights.Read, Kind: addr.KindState, Glob: "other"}},
		partly:    {{Action: rights.Read, Kind: addr.KindState, Glob: "shop/default"}, {Action: rights.Write, Kind: addr.KindState, Glob: "*/none"}},
	} {
		id, hash := must.GetBoth(statictoken.Hash(callerToken(caller)))(t)
		policy.Tokens = append(policy.Tokens, statictoken.Token{ID: id, Hash: hash, Scopes: scopes})
	}
	queue := must.Get(s.client.Repo(s.layout.QueueRepo()))(t)
	s.auditLog = auditlog.New(auditlog.Options{Repo: queue})
	s.records = slog.New(s.auditLog.Handler(slog.NewJSONHandler(s.audit, nil)))
	keys := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	guard := must.Get(access.New(access.Options{
		Policy: policy, Keyring: keys, Sessions: &access.Sessions{Keyring: keys, Plain: true}, Audit: s.records,
	}))(t)
	counted := mustClient(t, host, oci.Options{PlainHTTP: true, Transport: s.count})
	s.states = must.Get(states.New(states.Options{Client: counted, Layout: s.layout, Names: []string{"shop", "other"}, Now: func() time.Time { return s.now }}))(t)
	all := catalog.New(catalog.Options{Client: counted, Layout: s.layout})
	pages := must.Get(web.New(web.Options{
		Kit:      service.New(service.Options{Guard: guard, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}),
		Catalog:  all,
		Finder:   catalog.NewFinder(all, false),
		States:   s.states,
		Uses:     &server.UsesService{Uses: s.states.Uses(), Catalog: all, Hostname: "okara.example.com", Layout: s.layout, Guard: guard},
		Off:      off,
		Doctor:   s,
		Audit:    s.auditLog,
		Depot:    &s.depots,
		Hostname: "okara.example.com", Version: "1.2.3",
	}))(t)
	s.Server = httptest.NewServer(pages)
	t.Cleanup(s.Close)
	return s
}

// store returns the store of a state, as a tool uses it.
func (s *stateSite) store(t testing.TB, name string) *statebackend.Store {
	t.Helper()
	repository := must.Get(s.layout.StateRepo(name))(t)
	r := must.Get(s.client.Repo(repository))(t)
	return statebackend.New(r, statebackend.Options{Tool: "okara/1.2.3"})
}

// put writes states one after the other.
func (s *stateSite) put(t testing.TB, name, workspace string, states ...string) {
	t.Helper()
	info := statebackend.NewLockInfo("OperationTypeApply", "1.10.0")
	info.Who = "alice@build-7"
	l := must.Get(s.store(t, name).Lock(t.Context(), workspace, info))(t)
	for _, state := range states {
		must.Get(l.Put(t.Context(), []byte(state)))(t)
	}
	must.Succeed(t, l.Unlock(t.Context()))
}

// ask sends a request as a caller and returns the answer with its body.
func (s *stateSite) ask(t *testing.T, caller, method, path string, form url.Values) (*http.Response, string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, s.URL+"/ui/"+path, strings.NewReader(form.Encode())))(t)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if caller != nobody {
		req.Header.Set("Authorization", "Bearer "+callerToken(caller))
	}
	resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp, string(b)
}

// formKey returns the key of the form on a page.
func formKey(t *testing.T, body string) string {
	t.Helper()
	m := regexp.MustCompile(`name="key" value="([^"]+)"`).FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("the page has no form with a key:\n%s", body)
	}
	return m[1]
}

// Secrets planted in states: marked, by name, and an output.
const (
	plantedMark   = "PLANTED-by-mark"
	plantedName   = "PLANTED-by-name"
	plantedOutput = "PLANTED-output"
)

// shopState returns a state with everything that a page shows, including planted secrets.
func shopState(serial int, size string) string {
	type object = map[string]any
	instance := func(attributes object, key any, marked ...string) object {
		steps := [][]object{}
		for _, name := range marked {
			steps = append(steps, []object{{"type": "get_attr", "value": name}})
		}
		return object{"index_key": key, "attributes": attributes, "sensitive_attributes": steps}
	}
	many := []any{}
	for i := range 120 {
		many = append(many, instance(object{"id": fmt.Sprintf("rec-%d", i), "ttl": 300}, i))
	}
	const aws = `provider["registry.opentofu.org/hashicorp/aws"]`
	doc := object{
		"version": 4, "terraform_version": "1.10.0", "serial": serial, "lineage": "3f2a-lineage",
		"outputs": object{
			"url":      object{"value": "https://shop.example.com", "type": "string"},
			"subnets":  object{"value": []string{"10.0.0.0/24", "10.0.1.0/24"}, "type": []any{"list", "string"}},
			"password": object{"value": plantedOutput, "type": "string", "sensitive": true},
		},
		"resources": []any{
			object{"mode": "managed", "type": "aws_db_instance", "name": "main", "provider": aws, "instances": []any{instance(object{
				"id": "db-1", "instance_class": size, "user_data": plantedMark, "password": plantedName, "notes": "<script>alert(1)</script>\u202e",
				"policy": strings.Repeat("line of a policy\n", 400), "tags": object{"team": "shop"},
			}, nil, "user_data")}},
			object{"mode": "managed", "type": "aws_route53_record", "name": "all", "module": "module.dns", "provider": aws, "instances": many},
			object{"mode": "data", "type": "aws_region", "name": "here", "provider": aws, "instances": []any{instance(object{"name": "eu-central-1"}, nil)}},
		},
	}
	if serial > 1 {
		delete(doc["outputs"].(object), "subnets")
	}
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// shop writes states: one with a hostile lock, one encrypted, one of others.
func (s *stateSite) shop(t *testing.T) {
	t.Helper()
	s.put(t, "shop", "default", shopState(1, "db.small"), shopState(2, "db.large"))
	s.put(t, "shop", "locked", shopState(1, "db.small"))
	info := statebackend.LockInfo{ID: hostileID, Operation: "OperationTypePlan", Info: "\x1b[31mred", Who: "mallory\u202e<b>", Created: s.now.Add(-3 * time.Hour)}
	must.Get(s.store(t, "shop").Lock(t.Context(), "locked", info))(t)
	s.put(t, "shop", "sealed", `{"serial":1,"lineage":"a","encrypted_data":"AAAA","encryption_version":"v0"}`)
	s.findings = findings()
	s.changes()
	s.put(t, "other", "default", `{"version":4,"serial":1,"lineage":"b","outputs":{"theirs":{"value":"of-others","type":"string"}},"resources":[]}`)
}

const hostileID = "x'; touch $(id) `id`"
