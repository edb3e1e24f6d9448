// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	cmpdiff "github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
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

// TestTofuSwitch: what exists only while it runs goes and comes back.
func TestTofuSwitch(t *testing.T) {
	rt := newRunsTest(t, sandbox.ModeNone)
	rt.source(t, map[string]string{"main.tf": switchedModule})
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
		if diff := cmpdiff.Diff(want, rt.resources(t)); diff != "" || st.Result.Outcome != lifecycle.Done || string(st.Result.Outputs["on"]) != string(on) {
			t.Errorf("stopped %v: %+v\n%s", stopped, st.Result, diff)
		}
	}
}

// TestTofuLeavesBehind: destroy = false (OpenTofu 1.12), whose exit status is 1.
func TestTofuLeavesBehind(t *testing.T) {
	rt := newRunsTest(t, sandbox.ModeNone)
	const keeping = "resource \"terraform_data\" \"kept\" {\n  lifecycle {\n    destroy = false\n  }\n}\n\nresource \"terraform_data\" \"gone\" {}\n"
	rt.source(t, map[string]string{"main.tf": keeping})
	rt.next(t)
	if st := rt.end(t, rt.start(t)); st.Result.Outcome != lifecycle.Done || len(st.Result.Left) > 0 {
		t.Fatalf("%+v", st.Result)
	}
	rt.source(t, map[string]string{"main.tf": "removed {\n  from = terraform_data.kept\n  lifecycle {\n    destroy = false\n  }\n}\n\nresource \"terraform_data\" \"gone\" {}\n"})
	rt.next(t)
	if st := rt.end(t, rt.start(t)); !slices.Equal(st.Result.Notes, []lifecycle.Note{{Kind: lifecycle.NoteForget, Text: "terraform_data.kept"}}) {
		t.Errorf("%+v", st.Result)
	}
	rt.source(t, map[string]string{"main.tf": keeping})
	rt.next(t)
	if st := rt.end(t, rt.start(t)); st.Result.Outcome != lifecycle.Done || st.Result.Resources != 2 {
		t.Fatalf("%+v", st.Result)
	}
	rt.spec.Ref.Kind, rt.spec.Ref.N, rt.spec.Ref.Attempt, rt.spec.Took = lifecycle.RunDestroy, 2, 0, ""
	rt.next(t)
	st := rt.end(t, rt.start(t))
	if diff := cmpdiff.Diff([]string{"terraform_data.kept"}, st.Result.Left); diff != "" || st.Result.Outcome != lifecycle.Done || st.Result.Resources != 0 {
		t.Errorf("%+v, left (-want +got):\n%s", st.Result, diff)
	}
}

// TestTofuLanguage launches and ends what the table of the language has, as far as it needs no provider, and writes or
// compares the column: of instances with OpenTofu 1.12.6.
func TestTofuLanguage(t *testing.T) {
	if os.Getenv("OKARA_TEST_TOFU") != "" {
		t.Skip("the column is that of the pinned release")
	}
	const page = "../../docs/reference/language.md"
	lines := strings.Split(string(must.Get(os.ReadFile(page))(t)), "\n")
	rt := newRunsTest(t, sandbox.ModeNone)
	for _, l := range tofutest.Language {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "| "+l.Argument+" |") })
		if at < 0 {
			t.Fatalf("%s lacks %s", page, l.Argument)
		}
		cell := ""
		if !strings.Contains(l.With, "dns") {
			rt.source(t, map[string]string{"main.tf": l.With, "m/main.tf": "\n"})
			rt.spec.Variables = nil
			if strings.Contains(l.With, "variable") && !strings.Contains(l.With, "default") {
				rt.spec.Variables = map[string]json.RawMessage{"a": json.RawMessage(`"x"`)}
			}
			cell = "yes"
			for _, kind := range []lifecycle.RunKind{lifecycle.RunApply, lifecycle.RunDestroy} {
				rt.spec.Ref.Kind, rt.spec.Ref.Attempt, rt.spec.Took = kind, 0, ""
				rt.spec.Ref.N++
				rt.next(t)
				if st := rt.end(t, rt.start(t)); st.Result.Outcome != lifecycle.Done {
					cell = "–"
					t.Logf("%s: %s", l.Argument, st.Result.Error)
					break
				}
			}
		}
		before := lines[at][:strings.LastIndex(strings.TrimSuffix(lines[at], "|"), "|")]
		switch line := before + "| " + cell + " |"; {
		case os.Getenv("OKARA_UPDATE") != "":
			lines[at] = line
		case line != lines[at]:
			t.Errorf("%s has %s, want %s", page, lines[at], line)
		}
	}
	if os.Getenv("OKARA_UPDATE") != "" {
		must.Succeed(t, os.WriteFile(page, []byte(strings.Join(lines, "\n")), 0o644))
	}
}

// source makes files the module of the next attempts.
func (rt *runsTest) source(t *testing.T, files map[string]string) {
	t.Helper()
	repo := must.Get(oci.OpenRepo(rt.spec.Repository, oci.Options{}))(t)
	blob := oci.BytesBlob(artifact.MediaZip, depottest.ZipOf(t, files))
	must.Get(repo.EnsureBlob(t.Context(), blob))(t)
	rt.spec.Source.Archive = blob.Digest.String()
}

// TestTofuDynamicSource: a child by a variable (OpenTofu 1.8), or by a `const` one (OpenTofu 1.12,
// Terraform 1.16), is made, changed, changed to nothing, which touches nothing, and destroyed.
//
// Shows: instances 5
func TestTofuDynamicSource(t *testing.T) {
	t.Run("any", func(t *testing.T) { launchDynamic(t, "") })
	t.Run("const", func(t *testing.T) { launchDynamic(t, "  const = true\n") })
}

func launchDynamic(t *testing.T, constant string) {
	rt := newRunsTest(t, sandbox.ModeNone)
	rt.source(t, map[string]string{
		"main.tf":   "variable \"which\" {\n  type = string\n" + constant + "}\n\nmodule \"m\" {\n  source = \"./${var.which}\"\n}\n",
		"a/main.tf": `resource "terraform_data" "a" {}`, "b/main.tf": `resource "terraform_data" "b" {}`,
	})
	for n, step := range []struct {
		which, error string
		approve      bool
		kind         lifecycle.RunKind
		left         []string
	}{
		{which: "a", left: []string{"a"}},
		{which: "b", left: []string{"b"}},
		{which: "a", left: []string{"a"}, approve: true},
		{which: "gone", error: "gone", left: []string{"a"}},
		{which: "a", kind: lifecycle.RunDrift, left: []string{"a"}},
		{which: "a", kind: lifecycle.RunDestroy},
	} {
		rt.spec.Ref.N, rt.spec.Ref.Attempt, rt.spec.Took = n+1, 0, ""
		rt.spec.Ref.Kind = cmp.Or(step.kind, lifecycle.RunApply)
		rt.spec.Variables = map[string]json.RawMessage{"which": json.RawMessage(`"` + step.which + `"`)}
		rt.spec.Approve, rt.spec.Plan = step.approve, ""
		rt.next(t)
		st := rt.end(t, rt.start(t))
		if os.Getenv("OKARA_TEST_TOFU") != "" && n == 0 && (strings.Contains(st.Result.Error, "Unsupported argument") || strings.Contains(st.Result.Error, "Only literal values")) { // the pinned one must take it
			t.Skip("this release refuses variables in a source: OpenTofu takes any since 1.8 and const ones since 1.12, Terraform const ones since 1.15")
		}
		if step.approve {
			rt.spec.Plan, rt.spec.PlanTag, rt.spec.Approve = st.Result.Plan, records.RunTag(rt.spec.Ref), false
			rt.next(t)
			st = rt.end(t, rt.start(t))
		}
		failed := step.error != ""
		if (st.Result.Outcome != lifecycle.Done) != failed || !strings.Contains(st.Result.Error, step.error) || st.Result.Untouched != (failed || step.kind == lifecycle.RunDrift) {
			t.Errorf("%d: %+v", n, st.Result)
		}
		if diff := cmpdiff.Diff(step.left, rt.resources(t)); diff != "" {
			t.Errorf("%d: left (-want +got):\n%s", n, diff)
		}
	}
}
