// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestTemplateCommands lists what a server lets users launch, and pauses it.
//
// Shows: platform 21
func TestTemplateCommands(t *testing.T) {
	h := newPortalUsers(t)
	h.Catalog.Change("lab/vpc", func(e *template.Entry) {
		e.Template.Title = "A \x1b[31mnetwork"
		e.Template.Parameters[0].Title = "How big"
		e.Template.Parameters[1].When = map[string][]json.RawMessage{"size": {json.RawMessage(`"large"`), json.RawMessage(`"huge"`)}}
	})
	h.Catalog.Change("lab/planned", func(e *template.Entry) { e.Problem = "module net/vpc/aws: no version matches" })
	h.Catalog.Change("lab/team", func(e *template.Entry) { e.Template.Enabled = false })
	for _, s := range []struct {
		name, who   string
		args        []string
		code        int
		out, errOut string
	}{
		{"list", "use-anna", []string{"list"}, cli.ExitOK, `(?m)^TEMPLATE +STATE +TITLE\n(?:.*\n)*lab/planned +invalid *\n(?:.*\n)*lab/team +disabled *\n(?:.*\n)*lab/vpc +ready +A \x{fffd}\[31mnetwork$`, ""},
		{"list of a stranger", "nobody", []string{"list"}, cli.ExitOK, "^TEMPLATE +STATE +TITLE\n$", ""},
		{"show", "use-anna", []string{"show", "lab/vpc"}, cli.ExitOK, `(?m)^module +net/vpc/aws ~> 1\.0$(?:.*\n)*^lifetime +8h, at most 72h, can be extended 2 times by 2h, then destroy\nparameter +size  How big  \(must be "small" or "large"\)\nparameter +secret  \(sensitive, only when size is "large" or "huge"\)$`, ""},
		{"show a pool", "use-anna", []string{"show", "lab/pool"}, cli.ExitOK, `(?m)^pool +0 of 2 ready$`, ""},
		{"show what is invalid", "use-anna", []string{"show", "lab/planned"}, cli.ExitOK, `(?m)^reason +module net/vpc/aws: no version matches$`, ""},
		{"show nothing", "use-anna", []string{"show", "lab/none"}, cli.ExitNotFound, "^$", "template lab/none not found or not visible to you"},
		{"show what a stranger may not see", "nobody", []string{"show", "lab/vpc"}, cli.ExitNotFound, "^$", "template lab/vpc not found or not visible to you"},
		{"show two", "use-anna", []string{"show", "lab/vpc", "lab/one"}, cli.ExitUsage, "^$", ""},
		{"pause by who may not", "use-anna", []string{"pause", "lab/vpc"}, cli.ExitDenied, "^$", ""},
		{"pause", "admin-a", []string{"pause", "lab/vpc", "--reason", "the account is full"}, cli.ExitOK, "^lab/vpc paused\n$", ""},
		{"show what is paused", "use-anna", []string{"show", "lab/vpc"}, cli.ExitOK, `(?m)^state +paused\n.*reason +the account is full$`, ""},
		{"resume by who may not", "use-anna", []string{"resume", "lab/vpc"}, cli.ExitDenied, "^$", ""},
		{"resume under a key", "admin-a", []string{"resume", "lab/vpc", "--key", "k1"}, cli.ExitOK, "^lab/vpc ready\n$", ""},
		{"resume again under it", "admin-a", []string{"resume", "lab/vpc", "--key", "k1"}, cli.ExitOK, "^lab/vpc ready\n$", ""},
		{"another change under it", "admin-a", []string{"pause", "lab/vpc", "--reason", "x", "--key", "k1"}, cli.ExitOK, "^lab/vpc paused\n$", ""}, // another route
		{"resume at last", "admin-a", []string{"resume", "lab/vpc"}, cli.ExitOK, "^lab/vpc ready\n$", ""},
	} {
		code, out, errOut := h.as(t, s.who, append([]string{"instance", "template"}, s.args...)...)
		if code != s.code || !regexp.MustCompile(s.out).MatchString(out) || !regexp.MustCompile(s.errOut).MatchString(errOut) {
			t.Errorf("%s: %d %q %q, want %d %s %s", s.name, code, out, errOut, s.code, s.out, s.errOut)
		}
	}
	code, out, _ := h.as(t, "use-anna", "instance", "template", "list", "--json")
	var list []api.Template
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != cli.ExitOK || len(list) != 6 {
		t.Errorf("as JSON: %d, %d templates, %v", code, len(list), err)
	}
	h.create(t, "use-anna", "lab/vpc") // resumed
}

// TestLostInstances finds an unknown instance's state, and ignores known or ended ones.
func TestLostInstances(t *testing.T) {
	client := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true}))(t)
	layout := addr.Layout{Prefix: "acme"}
	if found, n, err := lostInstances(t.Context(), client, layout, nil); err != nil || n != 0 || len(found) != 0 {
		t.Fatalf("of a registry without instances: %v, %d, %v", found, n, err)
	}
	queue := must.Get(client.Repo(layout.QueueRepo()))(t)
	const known, ended, lost = "a234567892", "b234567892", "c234567892"
	for _, id := range []string{known, ended, lost} {
		repository, _ := must.GetBoth(layout.Instance("sandbox", "vpc", id))(t)
		must.Succeed(t, records.AddInstanceEntry(t.Context(), queue, id, "sandbox/vpc", repository))
		repo := must.Get(client.Repo(repository))(t)
		if id == ended {
			must.Succeed(t, (records.InstanceRepo{Repo: repo}).PutFinal(t.Context(), id, []byte("{}")))
		}
	}
	found, n, err := lostInstances(t.Context(), client, layout, map[string]bool{known: true})
	if err != nil || n != 3 || len(found) != 1 || found[0].Tag != "i-"+lost {
		t.Errorf("%+v of %d, %v, want %s of 3", found, n, err, lost)
	}
}
