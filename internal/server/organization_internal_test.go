// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// settingsOf reads a settings file that is valid by itself.
func settingsOf(t *testing.T, text string) *Settings {
	t.Helper()
	return must.Get(readSettings(t, text))(t)
}

func readSettings(t *testing.T, text string) (*Settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "okara.hcl")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	s := Defaults()
	return s, s.Read(file)
}

// TestOrganizationRefused: mistakes in tfe.v2's blocks have their line.
func TestOrganizationRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no name of a state", `organization "Acme" {}`, `okara.hcl:1: state name "Acme"`},
		{"twice", "organization \"acme\" {}\norganization \"acme\" {}", `okara.hcl:2: duplicate organization block "acme"`},
		{"reserved", "organization \"acme\" {\n  split = true\n}\norganization \"acme.eu\" {}", `okara.hcl:4: organization "acme.eu" is reserved for workspace "eu" of organization "acme"`},
		{"reserved by a block behind", "organization \"acme.eu\" {}\norganization \"acme\" {\n  split = true\n}", `okara.hcl:1: organization "acme.eu" is reserved`},
		{"reserved still", "organization \"acme\" {\n  split = false\n}\norganization \"acme.eu\" {\n  split = true\n}", `organization "acme.eu" is reserved`},
		{"remote", "organization \"acme\" {\n  execution_mode = \"remote\"\n}", "runs no plans for the tools"},
		{"no mode", "organization \"acme\" {\n  execution_mode = \"agent\"\n}", `invalid execution mode "agent": must be local or remote`},
		{"credentials", "organization \"acme\" {\n  credentials = [\"aws\"]\n}", "or leave out credentials"},
		{
			"a rule by claims", "organization \"acme\" {\n  split = true\n}\nrule \"clusters\" {\n  allow = [\"read:module:**\", \"write:state:acme.{namespace}/{workspace}\"]\n}",
			"okara.hcl:4: write:state:acme.{namespace}/{workspace}: the states acme.* are workspaces of organization \"acme\", which is or was split\nhint: write write:state:acme/{namespace}",
		},
		{"anonymous", "organization \"acme\" {\n  split = true\n}\nanonymous = [\"read:state:acme.prod\"]", "okara.hcl:4: read:state:acme.prod"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := settingsOf(t, tt.text)
			_, err := s.accessPolicy()
			if err == nil {
				_, err = s.layout()
			}
			if _, ok := errors.AsType[*syntax.SettingError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "tokens")
	must.Succeed(t, os.WriteFile(file, []byte(rightsToken+" write:state:acme.prod\n"), 0o600))
	s := settingsOf(t, "organization \"acme\" {\n  split = true\n}")
	s.TokenFile = file
	if _, err := s.accessPolicy(); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "hint: write write:state:acme/prod") {
		t.Errorf("a token file: %v", err)
	}
}

// TestOrganizations: names with a common prefix are distinct unless reserved.
func TestOrganizations(t *testing.T) {
	s := settingsOf(t, `
organization "acme" {
  split = true
}
organization "acme-eu" {
  split = false
}
organization "acme-eu2.west" {
  execution_mode = "local"
}
rule "r" {
  allow = ["write:state:acme/*", "write:state:acme-eu2.west", "read:state:**"]
}
tfe {
  snapshot_interval = "0"
  memory            = "2GiB"
}
`)
	if _, err := s.accessPolicy(); err != nil {
		t.Error(err)
	}
	l, err := s.layout()
	if err != nil || !slices.Equal(l.Split, []string{"acme", "acme-eu"}) {
		t.Errorf("split are %q, %v", l.Split, err)
	}
	o := s.Cloud.tfeOptions()
	if o == nil || o.Interval != 0 || o.Memory != 2<<30 || !slices.Equal(o.Fresh, []string{"acme"}) || len(o.Organizations) != 3 {
		t.Errorf("tfe.v2 is %+v", o)
	}
	if o := Defaults().Cloud.tfeOptions(); o == nil || o.Interval != 30*time.Second || o.Memory != 1<<30 {
		t.Errorf("by default tfe.v2 is %+v", o)
	}
	off := settingsOf(t, "tfe {\n  enabled = false\n}\nlisten = \"0.0.0.0:80\"")
	if o := off.Cloud.tfeOptions(); o != nil {
		t.Errorf("off it is %+v", o)
	}
}
