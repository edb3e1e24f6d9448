// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const switchedModule = `
variable "running" {
  type = bool
}

resource "terraform_data" "disk" {}

resource "terraform_data" "machine" {
  count = var.running ? 1 : 0
  input = terraform_data.disk.id
}

output "on" {
  value = length(terraform_data.machine) > 0
}
`

const switchedTemplate = `
template "lab/night" {
  module { address = "net/vpc/aws" }
  outputs = ["on"]
  schedule {
    variable = "running"
    stopped  = false
    started  = true
  }
}
`

// TestTofuSwitch stops and starts a real module by the variable of a schedule: resources that
// exist only while it runs disappear and come back, and the others stay.
func TestTofuSwitch(t *testing.T) {
	rt := newRunsTest(t, sandbox.ModeNone)
	repo, err := oci.OpenRepo(rt.spec.Repository, oci.Options{})
	if err != nil {
		t.Fatal(err)
	}
	blob := oci.BytesBlob(artifact.MediaZip, depottest.ZipOf(t, map[string]string{"main.tf": switchedModule}))
	if _, err := repo.EnsureBlob(t.Context(), blob); err != nil {
		t.Fatal(err)
	}
	rt.spec.Source.Archive = blob.Digest.String()
	list, err := template.Parse([]byte(switchedTemplate), "x.hcl", template.Known{})
	if err != nil {
		t.Fatal(err)
	}
	rt.spec.Outputs = list[0].Outputs
	for _, stopped := range []bool{false, true, false} {
		if rt.spec.Variables, err = template.Render(list[0], template.Scope{Stopped: stopped}); err != nil {
			t.Fatal(err)
		}
		rt.next(t)
		st := rt.end(t, rt.start(t))
		want, on := []string{"disk", "machine"}, json.RawMessage("true")
		if stopped {
			want, on = []string{"disk"}, json.RawMessage("false")
		}
		if diff := cmp.Diff(want, rt.resources(t)); diff != "" || st.Result.Outcome != lifecycle.Done || string(st.Result.Outputs["on"]) != string(on) {
			t.Errorf("stopped %v: %+v\n%s", stopped, st.Result, diff)
		}
	}
}
