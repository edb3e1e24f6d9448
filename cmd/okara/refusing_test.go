// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/doctor"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// okaraAs runs a command line with the stored login of an account at a registry with refusals.
func okaraAs(t *testing.T, host, password string, args ...string) outcome {
	t.Helper()
	u := &person{t: t, home: t.TempDir()}
	u.file(".docker/config.json", fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte("robot:"+password))))
	return u.okara("", args...)
}

// refusingRepository is made, or at OKARA_MATRIX_REGISTRY, with immutable tags.
func refusingRepository(t *testing.T, rules ocitest.Refusals) string {
	t.Helper()
	if place := os.Getenv("OKARA_MATRIX_REGISTRY"); place != "" {
		return place + "/" + strings.ToLower(t.Name()[strings.LastIndexByte(t.Name(), '/')+1:])
	}
	return ocitest.NewRefusing(t, rules).Host + "/infra/state"
}

// TestStateOnImmutableTags: with immutable tags no command silently returns an old state, with
// and without the verdict of okara admin doctor.
//
// Shows: rules 1 | where tags are immutable, no read returns an old state without an error
func TestStateOnImmutableTags(t *testing.T) {
	for name, rules := range map[string]ocitest.Refusals{
		"rule": {Immutable: []string{"*"}}, "rule-and-no-untag": {Immutable: []string{"state-*"}, NoUntag: true}, "no-update": {NoUpdate: true},
	} {
		for _, examined := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s-%v", name, examined), func(t *testing.T) {
				repository := refusingRepository(t, rules)
				if examined {
					if o := okara(t, "admin", "doctor", repository); o.code != cli.ExitOK || !strings.Contains(o.out, "exempts state-*, locked-* and unlocked-* (not state-*-v*)") {
						t.Errorf("doctor: exit %d\n%s%s", o.code, o.out, o.err)
					}
				}
				var said strings.Builder
				for serial := 1; serial <= 3; serial++ {
					o := okara(t, "state", "push", repository, newFile(t, "s", stateText("a", serial)))
					if o.code != cli.ExitOK {
						t.Fatalf("push %d: exit %d\n%s", serial, o.code, o.err)
					}
					said.WriteString(o.err)
					for _, args := range [][]string{{"state", "pull", repository}, {"state", "show", repository, "--json"}} {
						if o := okara(t, args...); o.code != cli.ExitOK || !strings.Contains(o.out, fmt.Sprintf(`"serial":%d`, serial)) && !strings.Contains(o.out, fmt.Sprintf(`"serial": %d`, serial)) {
							t.Errorf("%v after push %d: exit %d\n%.300s\n%s", args, serial, o.code, o.out, o.err)
						}
					}
				}
				if !examined && !strings.Contains(said.String(), "exempt state-*, locked-* and unlocked-*") || strings.Contains(said.String(), "next lock repairs") {
					t.Errorf("said\n%s", said.String())
				}
			})
		}
	}
}

// TestDoctorOnRefusing: okara admin doctor pushes a tag twice and deletes one, and reports the
// result, also for an account that may only push.
//
// Shows: rules 2 | `okara admin doctor` moves and deletes a tag, also with an account that may only
// push
func TestDoctorOnRefusing(t *testing.T) {
	pushOnly := map[string][]string{"infra": {"pull", "push"}}
	for _, tt := range []struct {
		name     string
		rules    ocitest.Refusals
		pointer  format.Pointer
		deletes  [2]bool // by tag, by digest
		leftover bool    // rounds ran in a separate repository
		runs     int     // the second time most content exists already
	}{
		{"nothing refused", ocitest.Refusals{}, format.PointerMoves, [2]bool{true, true}, false, 2},
		{"harbor", ocitest.Refusals{NoUntag: true, Projects: map[string][]string{"infra": {"pull", "push", "delete"}}}, format.PointerMoves, [2]bool{false, true}, false, 1},
		{"immutable", ocitest.Refusals{Immutable: []string{"*"}}, format.PointerStuck, [2]bool{false, false}, true, 2},
		{"immutable but states", ocitest.Refusals{Immutable: []string{"*"}, Exempt: []string{"state-*", "locked-*", "unlocked-*", "okara-*"}}, format.PointerMoves, [2]bool{true, true}, false, 1},
		{"no update", ocitest.Refusals{NoUpdate: true, NoDelete: true}, format.PointerStuck, [2]bool{false, false}, true, 1},
		{"push only", ocitest.Refusals{Projects: pushOnly}, format.PointerMoves, [2]bool{false, false}, true, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := ocitest.NewRefusing(t, tt.rules)
			reference := g.Host + "/infra/state"
			for range tt.runs {
				o := okaraAs(t, g.Host, "secret", "admin", "doctor", reference, "--json")
				var r doctor.Report
				if err := json.Unmarshal([]byte(o.out), &r); err != nil || o.code != cli.ExitOK {
					t.Fatalf("exit %d, %v: %s", o.code, err, o.err)
				}
				v := r.Verdict
				if v.Pointer != tt.pointer || [2]bool{v.DeleteTag, v.DeleteDigest} != tt.deletes || v.Locking != statebackend.LockingExact || v.Rounds != 200 {
					t.Errorf("verdict %+v", v)
				}
			}
			g.Refuse(ocitest.Refusals{})
			must.Equal(t, "rounds in a repository of their own", len(probes(t, g.Host+"/infra/state/okara-doctor")) > 0, tt.leftover)
			o := okara(t, "admin", "doctor", reference, "--json") // after the rule was removed
			if o.code != cli.ExitOK || !strings.Contains(o.out, `"pointer": "moves"`) {
				t.Errorf("exit %d\n%s%s", o.code, o.out, o.err)
			}
			if names := mustOkara(t, "state", "list", reference); strings.TrimSpace(names) != "" {
				t.Errorf("workspaces: %s", names)
			}
		})
	}
}

// probes returns the tags that okara admin doctor left in a repository, which may not exist.
func probes(t *testing.T, reference string) []string {
	t.Helper()
	r := must.Get(oci.OpenRepo(reference, oci.Options{PlainHTTP: true}))(t)
	l, err := r.Snapshot(t.Context())
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		t.Fatal(err)
	}
	return slices.DeleteFunc(l.Tags, func(tag string) bool { return !strings.Contains(tag, "-probe-") })
}

// TestDeniedByHarbor: a known account without a right, or a missing project, is denied: exit
// code 5, the registry's text, one hint.
//
// Shows: rules 3 | 401 for a missing right or project counts as denied, a wrong password does not
func TestDeniedByHarbor(t *testing.T) {
	host := ocitest.NewRefusing(t, ocitest.Refusals{Projects: map[string][]string{"infra": {"pull"}}}).Host
	state := newFile(t, "s", stateText("a", 1))
	for _, tt := range []struct {
		args     []string
		password string
		text     string
		hint     string
	}{
		{[]string{"state", "push", host + "/nope/state", state}, "secret", "project nope not found", "check that the project exists"},
		{[]string{"state", "pull", host + "/nope/state"}, "secret", "project nope not found", "check that the project exists"},
		{[]string{"state", "push", host + "/infra/state", state}, "secret", "action: push", "what the account may do in it"},
		{[]string{"publish", "module", newModuleDir(t), "net/vpc/aws", "1.0.0", "--registry", host + "/nope"}, "secret", "project nope not found", "check that the project exists"},
		{[]string{"admin", "doctor", host + "/nope/state"}, "secret", "project nope not found", "check that the project exists"},
		{[]string{"state", "pull", host + "/infra/state"}, "wrong", "unauthorized", "was refused; log in"},
	} {
		o := okaraAs(t, host, tt.password, tt.args...)
		if o.code != cli.ExitDenied || strings.Count(o.err, tt.text) == 0 || strings.Count(o.err, "\nhint: ") != 1 || !strings.Contains(o.err, tt.hint) || strings.Contains(o.err, "secret") {
			t.Errorf("%v: exit %d\n%s", tt.args, o.code, o.err)
		}
	}
}
