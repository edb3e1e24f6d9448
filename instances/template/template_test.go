// SPDX-License-Identifier: Apache-2.0

package template_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// whole has all attributes except those that exclude each other.
const whole = `template "sandbox/vpc" {
  title       = "VPC sandbox"
  description = "A network.\nOf your own."
  icon        = "network"
  category    = "aws/network"
  enabled     = false
  visible     = false
  module {
    address = "net/vpc/aws"
    version = "~> 1.4"
    path    = "modules/small"
  }
  executor  = "local"
  owner     = "group"
  groups    = ["team-*"]
  per_owner = 1
  max       = 50
  approval  = "plan"
  ttl {
    default   = "8h"
    max       = "72h"
    extend    = "2h"
    extends   = 5
    failed    = "4h"
    on_expire = "keep"
  }
  parameter "cidr" {
    title   = "Range"
    help    = "Which."
    default = "10.0.0.0/16"
    pattern = "^10[.]"
  }
  parameter "size" {
    enum    = ["small", "large"]
    default = null
    update  = true
    link    = false
  }
  parameter "count" {
    minimum = 1
    maximum = 2.5
    update  = true
    when    = { cidr = ["10.0.0.0/16"], size = ["large", "small"] }
  }
  inputs = {
    name  = "sandbox-${id}"
    mail  = owner.label
    zone  = config.zone
    plain = 5
    off   = null
    tags  = { team = claims.team, all = ["$${x} \"q\"", upper(parameters.size)] }
    pick  = parameters.size == "large" ? "l" : "s"
  }
  outputs = ["url", "host"]
  connection {
    type    = "web"
    url     = "https://${id}.${config.domain}/${owner.label}?a=${parameters.cidr}"
    message = <<-EOT
      ssh admin@${outputs.host}
      100%%{
    EOT
  }
  credentials = ["aws-sandbox"]
  timeout     = "30m"
  retries     = 0
  protection  = true
  drift {
    every     = "24h"
    remediate = true
  }
  update  = "auto"
  notices = ["24h", "30m"]
  cost {
    hourly   = 0.42
    currency = "EUR"
  }
}
`

func mustParse(t *testing.T, src string) *template.Template {
	t.Helper()
	list := must.Get(template.Parse([]byte(src), "a.hcl", template.Known{}))(t)
	if len(list) != 1 {
		t.Fatalf("%d templates", len(list))
	}
	return list[0]
}

// Shows: platform 2 | title, category, enabled, visible | in the template
// Shows: platform-mistakes 3
func TestParseWhole(t *testing.T) {
	got := mustParse(t, whole)
	first, second := 1.0, 2.5
	want := &template.Template{
		Name: "sandbox/vpc", Title: "VPC sandbox", Description: "A network.\nOf your own.", Icon: "network", Category: "aws/network",
		Module:   template.ModuleRef{Address: "net/vpc/aws", Version: "~> 1.4", Path: "modules/small"},
		Executor: "local", Owner: "group", Groups: []string{"team-*"}, PerOwner: 1, Max: 50, Approval: "plan",
		TTL: &template.TTL{Default: 8 * time.Hour, Max: 72 * time.Hour, Extend: 2 * time.Hour, Extends: 5, Failed: 4 * time.Hour, OnExpire: "keep"},
		Parameters: []template.Parameter{
			{Name: "cidr", Title: "Range", Help: "Which.", Default: json.RawMessage(`"10.0.0.0/16"`), Pattern: "^10[.]", Link: true},
			{Name: "size", Default: json.RawMessage("null"), Enum: []json.RawMessage{json.RawMessage(`"small"`), json.RawMessage(`"large"`)}, Update: true},
			{Name: "count", Minimum: &first, Maximum: &second, Update: true, Link: true, When: map[string][]json.RawMessage{
				"cidr": {json.RawMessage(`"10.0.0.0/16"`)}, "size": {json.RawMessage(`"large"`), json.RawMessage(`"small"`)},
			}},
		},
		Inputs: json.RawMessage(`{"mail":"${owner.label}","name":"sandbox-${id}","off":null,"pick":"${parameters.size == \"large\" ? \"l\" : \"s\"}","plain":5,` +
			`"tags":{"all":["$${x} \"q\"","${upper(parameters.size)}"],"team":"${claims.team}"},"zone":"${config.zone}"}`),
		Outputs:     []string{"url", "host"},
		Connection:  &template.Connection{Type: "web", URL: "https://${id}.${config.domain}/${owner.label}?a=${parameters.cidr}", Message: "ssh admin@${outputs.host}\n100%%{\n"},
		Credentials: []string{"aws-sandbox"}, Timeout: 30 * time.Minute, Protection: true,
		Drift: &template.Drift{Every: 24 * time.Hour, Remediate: true}, Update: "auto",
		Notices: []time.Duration{24 * time.Hour, 30 * time.Minute}, Cost: &template.Cost{Hourly: 0.42, Currency: "EUR"},
	}
	must.Match(t, "value", got, want)
	must.Match(t, "value", got.Claims(), []string{"team"})
	for group, want := range map[string]bool{"team-a": true, "other": false} {
		if got.AdmitsGroup(group) != want {
			t.Errorf("group %s: want %v", group, want)
		}
	}
}

// TestParseDefaults checks the defaults of the shortest template.
func TestParseDefaults(t *testing.T) {
	got := mustParse(t, "template \"a/b\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n}\n")
	want := &template.Template{
		Name: "a/b", Enabled: true, Visible: true, Module: template.ModuleRef{Address: "net/vpc/aws"},
		Executor: "local", Owner: "user", Approval: "none", Timeout: time.Hour, Retries: 2, Update: "manual",
	}
	must.Match(t, "value", got, want)
}

// TestCanonical parses what it encodes, and gives the same template the same digest in
// either syntax.
//
// Shows: platform-mistakes 3
func TestCanonical(t *testing.T) {
	pool := `template "a/b" {
  module { address = "net/vpc/aws" }
  owner = "claim:department"
  ttl { default = "none" }
  pool {
    size       = 3
    max        = 10
    max_age    = "24h"
    when_empty = "refuse"
  }
  inputs = { name = "x-${id}-${template}" }
}
`
	for _, src := range []string{whole, pool} {
		first := mustParse(t, src)
		b := must.Get(first.Canonical())(t)
		second, err := template.ParseCanonical(b, template.Known{})
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		must.Match(t, "value", second, first)
		before, _ := first.Digest()
		if two, _ := second.Digest(); before != two || len(before) != len("sha256:")+64 {
			t.Errorf("digests %s, %s", before, two)
		}
		changed := *first
		changed.Max++
		if three, _ := changed.Digest(); three == before {
			t.Error("another template has the same digest")
		}
	}
	got := mustParse(t, pool)
	if !got.Endless || got.TTL != nil || got.Pool.WhenEmpty != "refuse" || got.Pool.MaxAge != 24*time.Hour {
		t.Errorf("got %+v, %+v", got, got.Pool)
	}
	must.Match(t, "value", got.Claims(), []string{"department"})
}

// TestParseRefuses reports mistakes with their line.
//
// Shows: platform 12
func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, body, line, want string }{
		{"no module", "", "1", "module"},
		{"unknown attribute", `colour = "red"`, "3", "colour"},
		{"computed title", `title = "${id}"`, "3", "may not be used"},
		{"long title", `title = "` + strings.Repeat("x", 101) + `"`, "3", "too long"},
		{"control character", `title = "a\u001bb"`, "3", "control character"},
		{"turned text", `title = "a\u202eb"`, "3", "control character"},
		{"icon", `icon = "../x"`, "3", "icon"},
		{"category", `category = "/x"`, "3", "category"},
		{"executor", `executor = "flux-helm"`, "3", `executor "flux-helm" must be local`},
		{"chart", `chart = { oci = { url = "oci://r.example.com/web" } }`, "3", "executor local runs a module: charts are for flux-helm"},
		{"owner", `owner = "robot"`, "3", "user, group or claim:NAME"},
		{"claim", `owner = "claim:"`, "3", "user, group or claim:NAME"},
		{"groups", `groups = ["a"]`, "3", `owner = "group"`},
		{"per_owner", `per_owner = -1`, "3", "per_owner -1"},
		{"max", `max = 100000`, "3", "max 100000"},
		{"approval", `approval = "maybe"`, "3", "none or request or plan"},
		{"ttl", `ttl { default = "soon" }`, "3", "no"},
		{"short ttl", "ttl {\n default = \"1m\"\n}", "4", "at least 10m"},
		{"ttl max", "ttl {\n default = \"8h\"\n max = \"4h\"\n}", "5", "less than default"},
		{"ttl extend", "ttl {\n default = \"8h\"\n max = \"9h\"\n extend = \"10h\"\n}", "6", "more than max"},
		{"extends alone", "ttl {\n default = \"8h\"\n extends = 3\n}", "5", "extends requires extend"},
		{"endless with max", "ttl {\n default = \"none\"\n max = \"4h\"\n}", "4", "there is no end"},
		{"on_expire", "ttl {\n default = \"8h\"\n on_expire = \"sell\"\n}", "5", "destroy or keep"},
		{"negative ttl", "ttl {\n default = \"-8h\"\n}", "4", "no"},
		{"pool and parameter", "pool {\n size = 1\n}\nparameter \"a\" {\n}", "6", "cannot be combined with parameters"},
		{"pool and approval", "pool {\n size = 1\n}\napproval = \"plan\"", "6", "cannot be combined with approval"},
		{"pool and owner", "pool {\n size = 1\n}\ninputs = { a = owner.id }", "6", "members of a pool have no owner"},
		{"pool and claims", "pool {\n size = 1\n}\ninputs = { a = claims.b }", "6", "members of a pool have no owner"},
		{"pool and parameters", "pool {\n size = 1\n}\ninputs = { a = parameters.b }", "6", "members of a pool have no owner"},
		{"pool max", "pool {\n size = 5\n max = 1\n}", "5", "less than size"},
		{"pool beyond max", "max = 2\npool {\n size = 5\n}", "5", "more than max 2"},
		{"when_empty", "pool {\n size = 1\n when_empty = \"cry\"\n}", "5", "create or refuse"},
		{"parameter twice", "parameter \"a\" {\n}\nparameter \"a\" {\n}", "5", "appears twice"},
		{"parameter name", "parameter \"a b\" {\n}", "3", "not a valid input name"},
		{"pattern", "parameter \"a\" {\n pattern = \"(\"\n}", "4", "pattern"},
		{"minimum", "parameter \"a\" {\n minimum = 2\n maximum = 1\n}", "4", "more than maximum"},
		{"enum", "parameter \"a\" {\n enum = \"b\"\n}", "4", "list of values"},
		{"when", "parameter \"a\" {\n when = [1]\n}", "4", "when must be an object"},
		{"when of nothing", "parameter \"a\" {\n when = {}\n}", "4", "when must be an object"},
		{"when of no list", "parameter \"b\" {\n}\nparameter \"a\" {\n when = { b = 1 }\n}", "6", "when must be an object with a list of values"},
		{"when of itself", "parameter \"a\" {\n when = { a = [1] }\n}", "4", "parameter \"a\" is not defined before it"},
		{"when of what comes later", "parameter \"a\" {\n when = { b = [1] }\n}\nparameter \"b\" {\n when = { a = [1] }\n}", "4", "parameter \"b\" is not defined before it"},
		{"when twice", "parameter \"b\" {\n}\nparameter \"a\" {\n when = { b = [1], b = [2] }\n}", "6", "appears twice"},
		{"when of objects", "parameter \"b\" {\n}\nparameter \"a\" {\n when = { b = [null] }\n}", "6", "a string, a number, true or false"},
		{"when of what changes", "parameter \"b\" {\n update = true\n}\nparameter \"a\" {\n when = { b = [1] }\n}", "7", "b has update = true"},
		{"when of many values", "parameter \"b\" {\n}\nparameter \"a\" {\n when = { b = [" + strings.Repeat("1, ", 101) + "] }\n}", "6", "at most 100 values"},
		{"when computed", "parameter \"b\" {\n}\nparameter \"a\" {\n when = { b = [id] }\n}", "6", "may not be used"},
		{"computed default", "parameter \"a\" {\n default = id\n}", "4", "may not be used"},
		{"deep default", "parameter \"a\" {\n default = " + strings.Repeat("[", 20) + strings.Repeat("]", 20) + "\n}", "4", "deep"},
		{"inputs", `inputs = "a"`, "3", "inputs must be an object"},
		{"unknown name", "inputs = {\n a = secret\n}", "4", "unknown name secret"},
		{"unknown parameter", "inputs = {\n a = parameters.nope\n}", "4", "unknown name parameters.nope"},
		{"unknown of owner", "inputs = {\n a = owner.mail\n}", "4", "unknown name owner.mail"},
		{"all parameters", "inputs = {\n a = parameters\n}", "4", "unknown name parameters"},
		{"outputs in inputs", "inputs = {\n a = outputs.b\n}", "4", "not available before a run"},
		{"unknown function", "inputs = {\n a = file(\"/etc/passwd\")\n}", "4", "unknown function file"},
		{"loop", "inputs = {\n a = [for x in [1] : x]\n}", "4", "loops"},
		{"computed index", "inputs = {\n a = parameters[id]\n}", "4", "indices"},
		{"splat", "parameter \"p\" {\n}\ninputs = {\n a = parameters.p[*].x\n}", "6", "splats"},
		{"directive", "inputs = {\n a = \"%{if true}x%{endif}\"\n}", "4", "instead of %{if}"},
		{"spread", "inputs = {\n a = join(\",\", [\"a\"]...)\n}", "4", "write out"},
		{"arguments", "inputs = {\n a = lower(\"a\", \"b\")\n}", "4", "arguments"},
		{"wide format", "inputs = {\n a = format(\"%500000000s\", id)\n}", "4", "width up to 99"},
		{"computed format", "inputs = {\n a = format(id, id)\n}", "4", "must be a literal"},
		{"indexed format", "inputs = {\n a = format(\"%[1]s%[1]s\", id)\n}", "4", "width"},
		{"star format", "inputs = {\n a = format(\"%*s\", 5, id)\n}", "4", "width"},
		{"format values", "inputs = {\n a = format(\"%s\", id, id)\n}", "4", "1 verbs for 2"},
		{"computed key", "inputs = {\n (id) = 1\n}", "4", "must be literals"},
		{"output not listed", "connection {\n message = outputs.a\n}", "4", "does not list it"},
		{"javascript", "connection {\n url = \"javascript:alert(1)\"\n}", "4", "http"},
		{"userinfo", "connection {\n url = \"https://me@${config.domain}/\"\n}", "4", "user before"},
		{"owner as host", "connection {\n url = \"https://${owner.label}/\"\n}", "4", "before the path"},
		{"owner in host", "connection {\n url = \"https://a.${upper(owner.label)}\"\n}", "4", "before the path"},
		{"parameter in port", "parameter \"p\" {\n}\nconnection {\n url = \"https://a:${parameters.p}/\"\n}", "6", "before the path"},
		{"owner as scheme", "connection {\n url = \"${owner.label}\"\n}", "4", "before the path"},
		{"output and owner", "outputs = [\"u\"]\nconnection {\n url = \"${outputs.u}${owner.label}\"\n}", "5", "before the path"},
		{"no url", "connection {\n type = \"web\"\n message = \"x\"\n}", "3", "needs a url"},
		{"no message", "connection {\n type = \"instructions\"\n url = \"https://a/\"\n}", "3", "needs a message"},
		{"type", "connection {\n type = \"phone\"\n message = \"x\"\n}", "4", "web or instructions"},
		{"outputs", `outputs = ["a b"]`, "3", "is not a name"},
		{"credentials", `credentials = ["a/b"]`, "3", "is not a name"},
		{"timeout", `timeout = "1s"`, "3", "between 1m and 24h"},
		{"retries", `retries = 11`, "3", "retries 11"},
		{"drift", "drift {\n every = \"1m\"\n}", "4", "10m"},
		{"update", `update = "often"`, "3", "manual or auto"},
		{"cost", "cost {\n hourly = -1\n currency = \"EUR\"\n}", "4", "amount of money"},
		{"currency", "cost {\n hourly = 1\n currency = \"euro\"\n}", "5", "code such as EUR"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			module := "module { address = \"net/vpc/aws\" }"
			if tt.name == "no module" {
				module = ""
			}
			src := "template \"a/b\" {\n" + module + "\n" + tt.body + "\n}\n"
			_, err := template.Parse([]byte(src), "a.hcl", template.Known{})
			if err == nil {
				t.Fatal("it was accepted")
			}
			if prefix := "template a/b: a.hcl:" + tt.line + ": "; !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want %q and %q", err, prefix, tt.want)
			}
		})
	}
}

func TestParseRefusesNames(t *testing.T) {
	for _, name := range []string{"tfe/x", "a", "a/b/c", "A/b", "a_b/c", "a--b/c", "-a/b", "a/" + strings.Repeat("b", 41)} {
		src := "template \"" + name + "\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n}\n"
		if _, err := template.Parse([]byte(src), "a.hcl", template.Known{}); err == nil || !strings.HasPrefix(err.Error(), "a.hcl:1: template ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, module := range []string{`address = "vpc"`, "address = \"net/vpc/aws\"\nversion = \"newest\"", "address = \"net/vpc/aws\"\npath = \"../x\"", "address = \"net/vpc/aws\"\npath = \"/etc\""} {
		src := "template \"a/b\" {\n  module {\n" + module + "\n  }\n}\n"
		if _, err := template.Parse([]byte(src), "a.hcl", template.Known{}); err == nil {
			t.Errorf("%s was accepted", module)
		}
	}
}

// TestKnown checks a template against its server's names.
func TestKnown(t *testing.T) {
	src := "template \"a/b\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n  credentials = [\"aws\"]\n  inputs = { a = config.zone }\n}\n"
	known := template.Known{Credentials: []string{"aws"}, Config: []string{"zone"}}
	if _, err := template.Parse([]byte(src), "a.hcl", known); err != nil {
		t.Error(err)
	}
	for want, known := range map[string]template.Known{
		`a.hcl:5: unknown credential "aws"`:                                {Credentials: []string{}, Config: []string{"zone"}},
		"a.hcl:6: unknown name config.zone: config of the server has none": {Credentials: []string{"aws"}, Config: []string{"none"}},
	} {
		if _, err := template.Parse([]byte(src), "a.hcl", known); err == nil || err.Error() != "template a/b: "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	d := template.Defaults{TTL: &template.TTL{Default: time.Hour}, Connection: &template.Connection{Type: "instructions", Message: "see ${config.wiki}"}}
	short := mustParse(t, "template \"a/b\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n}\n")
	got := short.WithDefaults(d)
	if got.TTL.Default != time.Hour || got.Connection.Message != "see ${config.wiki}" || short.TTL != nil {
		t.Errorf("got %+v", got)
	}
	must.Succeed(t, got.CheckExpressions(template.Known{Config: []string{"wiki"}}))
	if err := got.CheckExpressions(template.Known{Config: []string{}}); err == nil || !strings.Contains(err.Error(), "config.wiki") {
		t.Errorf("got %v", err)
	}
	if kept := mustParse(t, whole).WithDefaults(d); kept.TTL.Default != 8*time.Hour || kept.Connection.Type != "web" {
		t.Errorf("got %+v", kept)
	}
	none := mustParse(t, "template \"a/b\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n  ttl {\n    default = \"none\"\n  }\n}\n")
	if none.WithDefaults(d).TTL != nil {
		t.Error("a template without end got one")
	}
}

// FuzzTemplate: accepted templates are stable.
func FuzzTemplate(f *testing.F) {
	f.Add(whole, false)
	f.Add(`{"template":{"a/b":{"module":{"address":"a/b/c"},"inputs":{"x":"${id}","y":["%{if true}a%{endif}"]},"parameter":[{"p":{"default":null}}]}}}`, true)
	f.Add("template \"a/b\" {\n module { address = \"a/b/c\" }\n inputs = { a = \"%{ if true }x%{ endif }${<<A\nx\nA\n}\" }\n}", false)
	f.Fuzz(func(t *testing.T, src string, isJSON bool) {
		file := "a.hcl"
		if isJSON {
			file += ".json"
		}
		list, err := template.Parse([]byte(src), file, template.Known{})
		if err != nil {
			return
		}
		for _, first := range list {
			b, err := first.Canonical()
			if err != nil {
				continue // it is too large
			}
			second, err := template.ParseCanonical(b, template.Known{})
			if err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			if again, err := second.Canonical(); err != nil || string(again) != string(b) {
				t.Fatalf("%v\n%s\n%s", err, b, again)
			}
			_, _ = template.Render(first, template.Scope{})
			_, _ = template.RenderConnection(first, template.Scope{})
		}
	})
}
