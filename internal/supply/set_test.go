// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/supply"
)

const setHCL = `
registry = "registry.example.com/platform"
interval = "30m"

auth "acme" {
  host      = "github.com"
  token_env = "ACME_TOKEN"
}

defaults {
  keep      = 10
  platforms = ["linux_amd64"]
  scan {
    scanner = "trivy"
    block   = "high"
    max_age = "168h"
  }
}

module "net/vpc/aws" {
  source   = "github.com/acme/terraform-aws-vpc//modules/vpc"
  versions = ">= 1.2.0, < 3.0.0"
  releases = true
  auth     = "acme"
  keep     = 3
}

module "net/dns/aws" {
  source = "terraform-aws-modules/route53/aws"
}

provider "hashicorp/time" {
  versions = "~> 0.14"
  approval {
    required   = true
    patch      = true
    older_than = "72h"
  }
}
`

const setJSON = `{
  "registry": "registry.example.com/platform", "interval": "30m",
  "auth": {"acme": {"host": "github.com", "token_env": "ACME_TOKEN"}},
  "defaults": {"keep": 10, "platforms": ["linux_amd64"], "scan": {"scanner": "trivy", "block": "high", "max_age": "168h"}},
  "module": {
    "net/vpc/aws": {"source": "github.com/acme/terraform-aws-vpc//modules/vpc", "versions": ">= 1.2.0, < 3.0.0", "releases": true, "auth": "acme", "keep": 3},
    "net/dns/aws": {"source": "terraform-aws-modules/route53/aws"}
  },
  "provider": {"hashicorp/time": {"versions": "~> 0.14", "approval": {"required": true, "patch": true, "older_than": "72h"}}}
}`

func TestParseSet(t *testing.T) {
	for name, src := range map[string]string{"depot.hcl": setHCL, "depot.json": setJSON} {
		t.Run(name, func(t *testing.T) {
			set := must.Get(supply.ParseSet(name, []byte(src)))(t)
			if set.Registry != "registry.example.com/platform" || set.Interval != 30*time.Minute || len(set.Modules) != 2 || len(set.Providers) != 1 {
				t.Fatalf("got %+v", set)
			}
			vpc, dns, prov := set.Modules[0], set.Modules[1], set.Providers[0]
			scan := supply.ScanPolicy{Scanner: "trivy", Block: "high", MaxAge: 168 * time.Hour}
			if vpc.Keep != 3 || vpc.Auth != "acme" || vpc.Subdir != "modules/vpc" || vpc.Source.Kind != "github" || vpc.Scan != scan {
				t.Errorf("vpc %+v", vpc)
			}
			if dns.Keep != 10 || dns.Source.Kind != supply.SourceRegistry || dns.Source.Host != "registry.opentofu.org" || dns.Policy != "immutable" {
				t.Errorf("dns %+v", dns)
			}
			want := supply.ApprovalPolicy{Required: true, Patch: true, OlderAge: 72 * time.Hour}
			if diff := cmp.Diff(want, prov.Approval); diff != "" || prov.Address.Hostname != "registry.opentofu.org" || len(prov.Platforms) != 1 {
				t.Errorf("provider %+v, %s", prov, diff)
			}
		})
	}
}

func TestParseSetNamesFileAndLine(t *testing.T) {
	for name, test := range map[string]struct{ src, want string }{
		"unknown argument": {"color = 1", "x.hcl:1"},
		"bad address":      {"\nmodule \"vpc\" {\n source = \"a/b/c\"\n}", "x.hcl:2"},
		"no source":        {"module \"a/b/c\" {}", "x.hcl:1"},
		"version in it":    {"module \"a/b/c\" {\n source = \"git::https://x.com/r.git?ref=v1\"\n}", "names one version"},
		"bad constraint":   {"provider \"a/b\" {\n versions = \"newest\"\n}", "x.hcl:1"},
		"bad platform":     {"provider \"a/b\" {\n platforms = [\"linux\"]\n}", "x.hcl:1"},
		"twice":            {"provider \"a/b\" {}\nprovider \"A/b\" {}", "x.hcl:2"},
		"unknown auth":     {"provider \"a/b\" {\n auth = \"x\"\n}", "no auth block"},
		"both secrets":     {"auth \"a\" {\n host = \"h\"\n token_env = \"A\"\n token_file = \"f\"\n}", "one of token_env, token_file and app_id is required"},
		"plain http":       {"auth \"a\" {\n host = \"h\"\n token_env = \"A\"\n api_url = \"http://github.example.com\"\n}", "api_url is not an https address"},
		"half an app":      {"auth \"a\" {\n host = \"h\"\n app_id = 1\n}", "app_id needs installation_id"},
		"bad level":        {"provider \"a/b\" {\n scan {\n scanner = \"s\"\n block = \"huge\"\n }\n}", "huge"},
		"bad interval":     {"interval = \"soon\"", "interval"},
		"deep":             {"registry = " + strings.Repeat("(", 100_000), "x.hcl:1: "},
		"endless":          {"\nregistry = " + strings.Repeat("[for a in [1,2,3,4] : ", 12) + "1" + strings.Repeat("]", 12), "x.hcl:2: "},
		"one archive":      {"module \"a/b/c\" {\n source = \"https://u:p@x.com/a.zip?token=s\"\n}", `"https://x.com/a.zip" is one archive`},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := supply.ParseSet("x.hcl", []byte(test.src))
			if err == nil {
				t.Fatalf("got %+v, want an error", set)
			}
			if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "x.hcl:") {
				t.Errorf("error %q does not contain %q and the place", err, test.want)
			}
		})
	}
}

// TestSetPaths: a depot file's paths are relative to it.
func TestSetPaths(t *testing.T) {
	dir := t.TempDir()
	set := must.Get(supply.ParseSet(filepath.Join(dir, "depot.hcl"), []byte(`
auth "a" {
  host       = "git.example.com"
  token_file = "secrets/token"
}
auth "b" {
  host             = "github.com"
  app_id           = 1
  installation_id  = 2
  private_key_file = "/secrets/app.pem"
}
provider "acme/dns" {
  origin = "./mirror"
}
provider "acme/net" {
  origin = "registry.example.com"
}
provider "acme/app" {
  origin = "https://example.com/mirror/"
}
`)))(t)
	got := []string{set.Auth["a"].File, set.Auth["b"].KeyFile}
	for _, p := range set.Providers {
		got = append(got, p.Origin)
	}
	if want := []string{filepath.Join(dir, "secrets", "token"), "/secrets/app.pem", filepath.Join(dir, "mirror"), "registry.example.com", "https://example.com/mirror/"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
