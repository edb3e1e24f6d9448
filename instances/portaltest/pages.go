// SPDX-License-Identifier: Apache-2.0

package portaltest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/pages"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci"
)

// Pages is the pages of instances over a store in memory, with the API beside them.
type Pages struct {
	*Server
	Pages  *httptest.Server
	Tokens map[string]string // by user name
}

// NewPages starts the pages; change can adjust the API options and the rules.
func NewPages(t testing.TB, change func(*portal.Options, *access.Policy)) *Pages {
	t.Helper()
	d := &Pages{Server: NewServer(t, change), Tokens: map[string]string{"": ""}}
	empty := ocitest.New(t, ocitest.Quirks{})
	client := must.Get(oci.New(empty, oci.Options{PlainHTTP: true}))(t)
	there := catalog.New(catalog.Options{Client: client, Layout: addr.Layout{Prefix: "acme"}})
	pages := must.Get(web.New(web.Options{
		Kit: d.Kit, Catalog: there, Finder: catalog.NewFinder(there, true),
		Hostname: "okara.example.com", Version: "1.2.3", Now: d.Store.Now, Instances: pages.New(pages.Options{API: d.API, Mine: d.API, Now: d.Store.Now}),
	}))(t)
	mux := http.NewServeMux()
	mux.Handle("/ui/", pages)
	mux.Handle("/api/v1/", d.API)
	d.Pages = httptest.NewServer(mux)
	t.Cleanup(d.Pages.Close)
	for name, groups := range map[string][]string{
		"anna": {"use", "team-a", "team-b"}, "ben": {"use", "team-b"}, "reader": {"read"}, "approver": {"approve", "use"}, "admin": {"admin"}, "stranger": {"nothing"},
	} {
		d.Tokens[name] = d.Issuer.Token(t, name, groups...)
	}
	return d
}

// Reply is an answer to a request for a page.
type Reply struct {
	Status   int
	Body     string
	Location string
	Header   http.Header
}

// Visit requests a page as a user; a form is sent as a browser sends it.
func (d *Pages) Visit(t *testing.T, user, path string, form url.Values) Reply {
	t.Helper()
	method := http.MethodGet
	from := io.Reader(nil)
	if form != nil {
		method = http.MethodPost
		from = strings.NewReader(form.Encode())
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), method, d.Pages.URL+"/ui/"+path, from))(t)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", d.Pages.URL)
	}
	if token := d.Tokens[user]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp := must.Get(http.DefaultTransport.RoundTrip(r))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return Reply{resp.StatusCode, string(b), resp.Header.Get("Location"), resp.Header}
}

// Open is Visit that expects a status.
func (d *Pages) Open(t *testing.T, status int, user, path string, form url.Values) Reply {
	t.Helper()
	got := d.Visit(t, user, path, form)
	if got.Status != status {
		t.Fatalf("%s: %s %v: status %d, want %d\n%s", user, path, form, got.Status, status, got.Body)
	}
	return got
}

var keyField = regexp.MustCompile(`name="key" value="([^"]+)"`)

// KeyOf returns the key of the form on a page; "": it has none.
func KeyOf(body string) string {
	m := keyField.FindStringSubmatch(body)
	if m == nil {
		return ""
	}
	return m[1]
}

// Fill opens the page of a form, and returns the form's fields with the given values.
func (d *Pages) Fill(t *testing.T, user, path string, fields ...string) url.Values {
	t.Helper()
	key := KeyOf(d.Open(t, 200, user, path, nil).Body)
	if key == "" {
		t.Fatalf("%s: %s has no form", user, path)
	}
	form := url.Values{"key": {key}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return form
}

// Send opens the page of a form and sends it; the answer must be a redirect.
func (d *Pages) Send(t *testing.T, user, page, to string, fields ...string) Reply {
	t.Helper()
	return d.Open(t, 303, user, to, d.Fill(t, user, page, fields...))
}

// Launch makes an instance through the API, and returns its id.
func (d *Pages) Launch(t *testing.T, user, body string) string {
	t.Helper()
	status, _, b := d.Ask(t, d.Tokens[user], "POST", "instances", body)
	var instance api.Instance
	if err := json.Unmarshal(b, &instance); err != nil || status >= 300 {
		t.Fatalf("%s: %d %s", body, status, b)
	}
	return instance.ID
}

// Ready lets the run of an instance succeed.
func (d *Pages) Ready(t *testing.T, id string) {
	t.Helper()
	u := d.Store.Record(t, id).Run
	ref := u.Ref(id)
	if u.StartedAt.IsZero() {
		ref = d.Store.Start(t, id)
	}
	d.Store.Serve(t, lifecycle.Ended{
		Ref: ref, Connection: &template.Connection{Type: template.ConnectionWeb, URL: "https://vpc.example.com", Message: "ssh admin@vpc"},
		Result: lifecycle.Result{
			Outcome: lifecycle.Done, Resources: 2, State: true, Counts: &lifecycle.Counts{Add: 2},
			Outputs: map[string]json.RawMessage{"url": json.RawMessage(`"https://vpc.example.com"`)},
		},
	})
}

// network is a template that uses everything a page can show of one.
const network = `
template "lab/vpc" {
  title       = "Private network"
  description = "A network of its own, with two subnets and a way out."
  icon        = "network"
  category    = "network"
  module {
    address = "net/vpc/aws"
    version = "~> 1.0"
  }
  per_owner  = 3
  protection = true
  ttl {
    default = "8h"
    max     = "72h"
    extend  = "2h"
    extends = 2
  }
  parameter "size" {
    enum   = ["small", "large"]
    title  = "Size"
    help   = "Large has four times the addresses."
    update = true
  }
  parameter "secret" { title = "Password of the gateway" }
  outputs = ["url", "password"]
  cost {
    hourly   = 0.5
    currency = "EUR"
  }
}

template "lab/team" {
  title = "Shared scratch account"
  module { address = "net/vpc/aws" }
  owner  = "group"
  groups = ["team-*"]
}

template "lab/asked" {
  title = "Machine with a graphics card"
  module { address = "net/vpc/aws" }
  approval = "request"
}

template "lab/pool" {
  title = "Notebook"
  icon  = "notebook"
  module { address = "net/vpc/aws" }
  ttl { default = "1h" }
  pool { size = 2 }
}
`

// Keyed has a parameter of each kind of field.
const Keyed = `
template "lab/keys" {
  module { address = "net/vpc/aws" }
  parameter "ssh_key" {}
  parameter "open_key" { link = true }
  parameter "zone" {}
  parameter "count" {
    title   = "Number"
    maximum = 5
  }
  parameter "tags" {}
  parameter "labels" { title = "Labels" }
  parameter "place" { title = "Place" }
  parameter "disks" { title = "Disks" }
  parameter "enabled" {}
  parameter "maybe" {}
}
`

// Shop has templates as a platform team would write them, and one by a malicious author.
const Shop = network + Keyed + `
template "lab/cluster" {
  title       = "Kubernetes cluster"
  description = "Three nodes and an ingress, for a day of trying things out. Reachable from the office only."
  category    = "cluster"
  icon        = "cluster"
  module { address = "net/vpc/aws" }
  approval = "plan"
  ttl { default = "24h" }
  cost {
    hourly   = 1.2
    currency = "EUR"
  }
}

template "lab/postgres" {
  title       = "PostgreSQL"
  description = "A database with nightly dumps."
  category    = "data/sql"
  icon        = "database"
  module { address = "net/vpc/aws" }
  ttl { default = "168h" }
}

template "lab/evil" {
  title       = "</script><script>alert(1)</script>"
  description = "right to left <b>bold</b> javascript:alert(1)"
  module { address = "net/vpc/aws" }
  parameter "zone" {
    title = "<i>zone</i>"
    help  = "<u>help</u>"
  }
}
`

// Noted is what the plan of [Results.Plan] does beside its changes.
func Noted() []lifecycle.Note {
	return []lifecycle.Note{{Kind: lifecycle.NoteForget, Text: "aws_kms_key.main"}, {Kind: lifecycle.NoteImport, Text: "aws_s3_bucket.logs"}, {Kind: lifecycle.NoteCheck, Text: `"health": the site answers 503`}}
}

// Full launches instances in every state that has its own page; it returns ids by name.
func (d *Pages) Full(t *testing.T) map[string]string {
	t.Helper()
	id := map[string]string{}
	launch := func(name, user, body string) { id[name] = d.Launch(t, user, body) }
	d.Results.SetOutputs(map[string]states.Output{"password": {Value: json.RawMessage(`"correct horse"`), Sensitive: true}})
	launch("ready", "anna", `{"template":"lab/vpc","name":"payments network","parameters":{"size":"large","secret":"hunter2hunter2"}}`)
	d.Ready(t, id["ready"])
	launch("failed", "anna", `{"template":"lab/postgres","name":"reports"}`)
	for range 3 {
		d.Store.Finish(t, id["failed"], lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "creating RDS DB Instance: InvalidParameterValue: the password is too short\nwith aws_db_instance.main"})
		d.Store.Advance(10 * time.Minute)
	}
	launch("planned", "anna", `{"template":"lab/cluster","name":"load test"}`)
	d.Store.Finish(t, id["planned"], lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:" + strings.Repeat("a1", 32), Counts: &lifecycle.Counts{Add: 1, Change: 1, Remove: 2, Replace: 1, Import: 1, Forget: 1}, Notes: Noted(), Cost: &prices.Cost{Before: 100_000, After: 520_000, Currency: "EUR", Priced: 5, Unpriced: 3}})
	launch("team", "ben", `{"template":"lab/team","name":"shared by team-b"}`)
	launch("asked", "ben", `{"template":"lab/asked"}`)
	launch("evil", "anna", `{"template":"lab/evil","name":"</title><script>alert(1)</script>","parameters":{"zone":"${x} \"><b>bold</b>\u202e"}}`)
	launch("working", "anna", `{"template":"lab/postgres","name":"orders"}`)
	d.Store.Start(t, id["working"])
	d.Results.Append("Initializing provider plugins...\nPlan: 4 to add, 0 to change, 0 to destroy.\naws_vpc.main: Creating...\naws_vpc.main: Creation complete after 3s [id=vpc-0a1]\naws_subnet.a: Creating...\naws_subnet.a: Creation complete after 1s [id=subnet-77]\naws_db_instance.main: Creating...\naws_db_instance.main: Still creating... [10s elapsed]\n\x1b[31mred\x1b[0m\r \u202eevent: end\n\n</pre><script>alert(1)</script>\n")
	d.Store.Advance(7 * time.Minute)
	return id
}

// Shows fetches a page and checks that it contains the texts.
func (d *Pages) Shows(t *testing.T, user, path string, texts ...string) string {
	t.Helper()
	body := d.Open(t, 200, user, path, nil).Body
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("%s: %s does not say %q:\n%s", user, path, text, body[strings.Index(body, "<main"):])
		}
	}
	return body
}
