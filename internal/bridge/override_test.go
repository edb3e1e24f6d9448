// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/must"
)

const wantOverride = `# Written by okara for the time of a run; remove it if no run is going on.

terraform {
  backend "s3" {
    bucket                      = "okara"
    key                         = "registry.example.com/team/state/state"
    region                      = "us-east-1"
    profile                     = "okara"
    shared_config_files         = ["$OKARA_RUN/config"]
    shared_credentials_files    = ["$OKARA_RUN/credentials"]
    use_path_style              = true
    skip_credentials_validation = true
    skip_requesting_account_id  = true
    skip_region_validation      = true
    max_retries                 = 1
    use_lockfile                = true
  }
}
`

// The text is a contract: a different text is a changed backend for every user.
//
// Shows: mistakes 37
func TestOverride(t *testing.T) {
	got := mustRead(t, files{"main.tf": block(`repository = "registry.example.com/team/state"`)}).Override()
	must.Match(t, "override differs", string(got), wantOverride)
}

func TestOverrideRemoteState(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		key, prefix      string
		backend          string // repository that okara knows
	}{
		{
			name: "literal", file: "main.tf",
			text: `data "terraform_remote_state" "net" {
				backend = "oci"
				config = { repository = "registry.example.com/net/state", compression = "none" }
			}`,
			key: `"${"registry.example.com/net/state"}/remote"`, prefix: `"remote:/${"registry.example.com/net/state"}"`,
			backend: "registry.example.com/net/state",
		},
		{
			name: "expression", file: "main.tf",
			text: `data "terraform_remote_state" "net" {
				backend = "oci"
				config = { repository = "${var.host}/net" }
			}`,
			key: `"${"${var.host}/net"}/remote"`, prefix: `"remote:/${"${var.host}/net"}"`,
		},
		{
			name: "whole config is an expression", file: "main.tf",
			text: `data "terraform_remote_state" "net" {
				backend = "oci"
				config = local.net
			}`,
			key: `"${(local.net).repository}/remote"`, prefix: `"remote:/${(local.net).repository}"`,
		},
		{
			name: "JSON", file: "main.tf.json",
			text: `{"data":{"terraform_remote_state":{"net":{"backend":"oci","config":{"repository":"${var.host}/net"}}}}}`,
			key:  `"${"${var.host}/net"}/remote"`, prefix: `"remote:/${"${var.host}/net"}"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustRead(t, files{tt.file: tt.text})
			if len(c.Remote) != 1 || c.Remote[0].Backend.Repository != tt.backend {
				t.Fatalf("got %+v", c.Remote)
			}
			got := string(c.Override())
			for _, want := range []string{`data "terraform_remote_state" "net" {`, `backend = "s3"`, "= " + tt.key + "\n", "= " + tt.prefix + "\n"} {
				if !strings.Contains(got, want) {
					t.Errorf("override lacks %s:\n%s", want, got)
				}
			}
		})
	}
}

func TestForeignRemoteStateIsLeftAlone(t *testing.T) {
	c := mustRead(t, files{"main.tf": `data "terraform_remote_state" "x" {
		backend = "local"
		config = { path = "x" }
	}`})
	if c.Used() {
		t.Errorf("got %+v", c.Remote)
	}
}

func mustRead(t *testing.T, f files) bridge.Config {
	t.Helper()
	return must.Get(bridge.Read(newModule(t, f), bridge.ReadOptions{Getenv: environment(nil)}))(t)
}
