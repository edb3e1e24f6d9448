// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/settings"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/statebackend"
)

// sealer is a stand-in for the state keys.
type sealer struct{ statebackend.Sealer }

// instanceEnv is a process with or without state keys.
func instanceEnv(keys bool) server.Env {
	env := server.Env{Supply: server.Supply{Secret: func(_, file string) (string, error) {
		b, err := os.ReadFile(file)
		return string(b), err
	}}}
	if keys {
		env.States.Sealer = sealer{}
	}
	return env
}

// readInstances reads a settings file in which <DIR> is a folder, <KEY> a file with a key
// and <SECRET> a file with a secret. The file prices.csv is beside it.
func readInstances(t *testing.T, text string, env server.Env) (*settings.Options, error) {
	t.Helper()
	dir := t.TempDir()
	key, secret := filepath.Join(dir, "key"), filepath.Join(dir, "secret")
	prices := filepath.Join(dir, "prices.csv")
	for file, content := range map[string]string{key: strings.Repeat("ab", 32), secret: "sixteen bytes or more", prices: "type,attribute,value,hourly\nvm,size,large,0.4\n"} {
		must.Succeed(t, os.WriteFile(file, []byte(content), 0o600))
	}
	text = strings.NewReplacer("<DIR>", fmt.Sprintf("%q", dir), "<KEY>", fmt.Sprintf("%q", key), "<SECRET>", fmt.Sprintf("%q", secret)).Replace(text)
	file := filepath.Join(dir, "okara.hcl")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	s, e := newSettings()
	if err := s.Read(file); err != nil {
		return nil, err
	}
	if s.Access.Anonymous == nil {
		s.Access.Anonymous = []string{} // otherwise anonymous callers would have all rights, which is another mistake
	}
	return e.options, server.Check(s, env)
}

// newSettings returns the settings of a server that can launch instances.
func newSettings() (*server.Settings, *Extension) {
	s, e := server.Defaults(), New()
	s.Extension = e
	return s, e
}

// TestInstances reads every setting of the block instances.
//
// Shows: platform-mistakes 3
func TestInstances(t *testing.T) {
	o := must.Get(readInstances(t, `
registry = "registry.example.com/platform"
instances {
  templates                = <DIR>
  role                     = "all"
  advertise                = "http://10.0.0.5:8080/"
  portal_session_key_files = [<KEY>]
  forward_plain            = true
  group_age                = "1h"
  rate                     = 7
  runs                     = 3
  config                   = { domain = "sandbox.example.com" }
  approval_self            = true
  ttl {
    default   = "8h"
    max       = "72h"
    extend    = "2h"
    extends   = 5
    failed    = "4h"
    on_expire = "keep"
  }
  quota {
    user  = 5
    group = 20
  }
  connection {
    type = "web"
    url  = "https://$${id}.$${config.domain}"
  }
  prices {
    file     = "prices.csv"
    currency = "EUR"
  }
}
executor "local" {
  program   = "terraform"
  isolation = "wrap"
  wrap      = ["nice"]
  reads     = ["net/**"]
}
credential "aws" {
  env_from = ["AWS_REGION"]
  files    = { AWS_SHARED_CREDENTIALS_FILE = "/etc/okara/aws" }
  command  = ["vend"]
}
template_source "acme/*" {
  versions    = "~> 1.0"
  modules     = ["acme/*/*"]
  credentials = ["aws"]
  max         = 20
}
quota "students" {
  groups    = ["students"]
  user      = 1
  templates = ["lab/*"]
}
notify {
  url         = "https://chat.example.com/hook"
  secret_file = <SECRET>
}
`, instanceEnv(true)))(t)
	type seen struct {
		Role, Advertise, Notify, Secret string
		Plain, InClear                  bool
		Config                          map[string]string
		TTL                             *template.TTL
		Connection                      *template.Connection
		Limits                          lifecycle.Limits
		GroupAge                        time.Duration
		Rate, Runs                      int
		Program, Isolation              string
		Sources, Credentials            int
		Prices                          *prices.Table
	}
	got := seen{
		o.Role, o.Advertise.String(), o.Notify.URL.String(), string(o.Notify.Secret), o.ForwardPlain, o.InClear, o.Config, o.TTL, o.Connection, o.Limits,
		o.GroupAge, o.Rate, o.Runs, o.Executor.Program, o.Executor.Isolation, len(o.Sources), len(o.Credentials), o.Prices,
	}
	want := seen{
		"all", "http://10.0.0.5:8080", "https://chat.example.com/hook", "sixteen bytes or more", true, false, map[string]string{"domain": "sandbox.example.com"},
		&template.TTL{Default: 8 * time.Hour, Max: 72 * time.Hour, Extend: 2 * time.Hour, Extends: 5, Failed: 4 * time.Hour, OnExpire: "keep"},
		&template.Connection{Type: "web", URL: "https://${id}.${config.domain}"},
		lifecycle.Limits{ApprovalSelf: true, Quotas: []lifecycle.Quota{{User: 5, Group: 20}, {Name: "students", Groups: []string{"students"}, Templates: []string{"lab/*"}, User: 1}}},
		time.Hour, 7, 3, "terraform", "wrap", 1, 1,
		&prices.Table{Currency: "EUR", Rows: []prices.Row{{Type: "vm", Attribute: "size", Value: "large", Hourly: 400_000}}},
	}
	must.Match(t, "instances", got, want)

	o = must.Get(readInstances(t, "instances {\n  templates = <DIR>\n}\nexecutor \"local\" {}\n", instanceEnv(false)))(t)
	if o.Role != "all" || o.Rate != 60 || o.Runs != 4 || o.TTL != nil || o.Executor.Program != "tofu" || o.Executor.Isolation != "sandbox" || o.GroupAge != 0 {
		t.Errorf("of which nothing is said: %+v", o)
	}
	if o, err := readInstances(t, "listen = \":1\"\n", instanceEnv(false)); o != nil || err != nil {
		t.Errorf("without a block: %+v, %v", o, err)
	}
	if _, err := readInstances(t, "registry = \"r.example.com/p\"\nui {\n  session_key_files = [<KEY>]\n}\ninstances {\n  role = \"portal\"\n}\n", instanceEnv(false)); err != nil {
		t.Errorf("a portal: %v", err)
	}
}

// TestInstancesRefused shows that each mistake in the file is reported with its line.
//
// Shows: platform 1
func TestInstancesRefused(t *testing.T) {
	const (
		local  = "executor \"local\" {}\n"
		good   = "instances {\n  templates = <DIR>\n}\n" + local
		remote = "registry = \"r.example.com/p\"\n"
		portal = remote + "ui {\n  session_key_files = [<KEY>]\n}\ninstances {\n  role = \"portal\"\n}\n"
	)
	in := func(line string) string { return "instances {\n  templates = <DIR>\n  " + line + "\n}\n" + local }
	for _, tt := range []struct {
		name, text string
		keys       bool
		want       string
	}{
		{"executor alone", "\n" + local, false, "okara.hcl:2: the executor block requires an instances block"},
		{"credential alone", "credential \"a\" {}\n", false, "okara.hcl:1: the credential block requires an instances block"},
		{"source alone", "template_source \"a/*\" {}\n", false, "the template_source block requires an instances block"},
		{"quota alone", "quota \"a\" {}\n", false, "the quota block requires an instances block"},
		{"notify alone", "notify {\n  url = \"x\"\n  secret_file = \"y\"\n}\n", false, "the notify block requires an instances block"},
		{"role", in(`role = "boss"`), false, `okara.hcl:1: invalid role "boss"`},
		{"no templates", "instances {}\n" + local, false, "no source of templates is set"},
		{"templates are no folder", "instances {\n  templates = <KEY>\n}\n" + local, false, "is not a folder"},
		{"no executor", "instances {\n  templates = <DIR>\n}\n", false, "no executor is set"},
		{"no state keys", remote + good, false, "okara.hcl:2: instances require the state keys"},
		{"keys and unsealed", in("unsealed = true"), true, "remove one of them"},
		{"rate", in("rate = -1"), false, "must be at least 1 change a minute"},
		{"runs", in("runs = 65"), false, "must be 1 to 64"},
		{"group age", in(`group_age = "soon"`), false, `group_age "soon" is not a duration`},
		{"config", in(`config = { "a b" = "x" }`), false, `config: "a b" is not a valid name in templates`},
		{"ttl without an end", in("ttl {\n    default = \"none\"\n    max = \"1h\"\n  }"), false, "okara.hcl:4: ttl: with default"},
		{"ttl too short", in("ttl {\n    default = \"9m\"\n  }"), false, "at least 10m"},
		{"ttl no duration", in("ttl {\n    default = \"8 h\"\n  }"), false, "is not a duration"},
		{"ttl over max", in("ttl {\n    default = \"8h\"\n    max = \"4h\"\n  }"), false, "ttl: max 4h0m0s is less than default 8h0m0s"},
		{"extends alone", in("ttl {\n    default = \"8h\"\n    extends = 2\n  }"), false, "extends requires extend"},
		{"on expire", in("ttl {\n    default = \"8h\"\n    on_expire = \"sell\"\n  }"), false, `on_expire "sell"`},
		{"connection", in("connection {\n    type = \"web\"\n  }"), false, "needs a url"},
		{"connection of no type", in("connection {\n    type = \"mail\"\n    message = \"x\"\n  }"), false, "is of type web"},
		{"empty quota", in("quota {}"), false, "at least 1"},
		{"executor elsewhere", in("") + "executor \"flux-helm\" {}\n", false, "run on a cluster"},
		{"executor twice", in("") + local, false, "appears twice"},
		{"isolation", "instances {\n  templates = <DIR>\n}\nexecutor \"local\" {\n  isolation = \"trust\"\n}\n", false, `okara.hcl:4: executor "local": the isolation "trust"`},
		{"wrap without a command", "instances {\n  templates = <DIR>\n}\nexecutor \"local\" {\n  isolation = \"wrap\"\n}\n", false, "must be set together"},
		{"reads", "instances {\n  templates = <DIR>\n}\nexecutor \"local\" {\n  reads = [\"net\"]\n}\n", false, `"net" is not a glob over modules`},
		{"credential of nothing", good + "credential \"a\" {}\n", false, `okara.hcl:5: credential "a": env_from, files or command is required`},
		{"credential twice", good + "credential \"a\" {\n  command = [\"x\"]\n}\ncredential \"a\" {\n  command = [\"x\"]\n}\n", false, "appears twice"},
		{"path", good + "credential \"a\" {\n  env_from = [\"PATH\"]\n}\n", false, "PATH cannot be used for credentials"},
		{"the state keys", good + "credential \"a\" {\n  env_from = [\"OKARA_STATE_KEYS\"]\n}\n", false, "OKARA_STATE_KEYS cannot be used for credentials"},
		{"how tofu behaves", good + "credential \"a\" {\n  env_from = [\"TF_CLI_ARGS\"]\n}\n", false, "TF_CLI_ARGS cannot be used for credentials"},
		{"one variable twice", good + "credential \"a\" {\n  env_from = [\"A\"]\n  files = { A = \"/x\" }\n}\n", false, "A appears twice"},
		{"no variable", good + "credential \"a\" {\n  env_from = [\"A=B\"]\n}\n", false, "is not the name of a variable"},
		{"source glob", good + "template_source \"acme\" {}\n", false, "is not a glob over NAMESPACE/NAME"},
		{"source taken", good + "template_source \"tfe/*\" {}\n", false, "is reserved"},
		{"source versions", good + "template_source \"acme/*\" {\n  versions = \"new\"\n}\n", false, `okara.hcl:5: template_source "acme/*"`},
		{"source credential", good + "template_source \"acme/*\" {\n  credentials = [\"aws\"]\n}\n", false, `no credential block "aws"`},
		{"source module", good + "template_source \"acme/*\" {\n  modules = [\"acme/*\"]\n}\n", false, "is not a glob over NAMESPACE/NAME/SYSTEM"},
		{"source max", good + "template_source \"acme/*\" {\n  max = -1\n}\n", false, "must not be negative"},
		{"quota twice", good + "quota \"a\" {\n  user = 1\n}\nquota \"a\" {\n  user = 2\n}\n", false, "quota \"a\": duplicate"},
		{"quota of nobody", good + "quota \"a\" {}\n", false, "at least 1"},
		{"quota glob", good + "quota \"a\" {\n  user = 1\n  templates = [\"lab\"]\n}\n", false, "is not a glob"},
		{"advertise", in(`advertise = "10.0.0.5:80"`), false, "not a URL such as"},
		{"advertise plain", in(`advertise = "http://10.0.0.5:80"`), false, "it is not https"},
		{"advertise a path", in(`advertise = "https://10.0.0.5/x"`), false, "and a port only"},
		{"advertise a user", in(`advertise = "https://u:planted@10.0.0.5"`), false, "and a port only"},
		{"runner nowhere", in(`role = "runner"`), false, "its address is not set"},
		{"portal key", in("portal_session_key_files = [<SECRET>]"), false, "not a secret in hexadecimal"},
		{"no prices", in("prices {\n  file = \"nowhere.csv\"\n  currency = \"EUR\"\n}"), false, "hint: name a CSV file"},
		{"prices", in("prices {\n  file = <SECRET>\n  currency = \"EUR\"\n}"), false, "line 1 is not the header"},
		{"prices in no currency", in("prices {\n  file = \"prices.csv\"\n  currency = \"euro\"\n}"), false, "okara.hcl:3: prices"},
		{"portal with prices", strings.TrimSuffix(portal, "}\n") + "  prices {\n    file = \"prices.csv\"\n    currency = \"EUR\"\n  }\n}\n", false, "a portal accepts only"},
		{"notify secret", good + "notify {\n  url = \"https://x.example\"\n  secret_file = \"/nowhere\"\n}\n", false, "okara.hcl:5: "},
		{"notify plain", good + "notify {\n  url = \"http://x.example\"\n  secret_file = <SECRET>\n}\n", false, "okara.hcl:5: notify: url must be https"},
		{"portal with keys", portal, true, "must not have the state keys"},
		{"portal with archive keys", portal + "archives {\n  key_files = [<KEY>]\n}\n", false, "must not have archives.key_files"},
		{"portal with templates", remote + "ui {\n  session_key_files = [<KEY>]\n}\ninstances {\n  role = \"portal\"\n  templates = <DIR>\n}\n", false, "a portal accepts only"},
		{"portal with an executor", portal + local, false, "a portal has no executor"},
		{"portal without a key", remote + "instances {\n  role = \"portal\"\n}\n", false, "needs ui.session_key_files"},
		{"portal of its own", strings.TrimPrefix(portal, remote), false, "a portal needs a registry"},
		{"portal with a depot", portal + "depot = \"x.hcl\"\n", false, "serves only instances"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readInstances(t, tt.text, instanceEnv(tt.keys))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "okara.hcl:") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "planted") {
				t.Errorf("the error repeats a password: %v", err)
			}
		})
	}
}

// TestInstancesNobody: anonymous callers launch nothing unless the settings grant it.
func TestInstancesNobody(t *testing.T) {
	file := filepath.Join(t.TempDir(), "okara.hcl")
	must.Succeed(t, os.WriteFile(file, fmt.Appendf(nil, "instances {\n  templates = %q\n}\nexecutor \"local\" {}\n", filepath.Dir(file)), 0o600))
	for name, tt := range map[string]struct {
		change func(*server.Settings)
		want   string
	}{
		"nothing is said":         {func(*server.Settings) {}, "okara.hcl:4: no setting restricts access: every caller could publish modules, which run here"},
		"nothing for everybody":   {func(s *server.Settings) { s.Access.Anonymous = []string{} }, ""},
		"everything, written out": {func(s *server.Settings) { s.AnonymousWrite = true }, ""},
	} {
		s, _ := newSettings()
		must.Succeed(t, s.Read(file))
		tt.change(s)
		if err := server.Check(s, instanceEnv(false)); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
