// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/doctor"
)

func TestDoctor(t *testing.T) {
	tests := []struct {
		name      string
		quirks    ocitest.Quirks
		locking   string
		deletes   [3]bool // by tag, by digest, and whether deleting a digest removes its tags
		conflicts bool
	}{
		{"distribution", ocitest.Quirks{}, statebackend.LockingExact, [3]bool{true, true, true}, false},
		{"no delete", ocitest.Quirks{NoDelete: true}, statebackend.LockingExact, [3]bool{false, false, false}, false},
		{"digest only", ocitest.Quirks{DigestDeleteOnly: true}, statebackend.LockingExact, [3]bool{false, true, true}, false},
		{"tag only", ocitest.Quirks{TagDeleteOnly: true}, statebackend.LockingExact, [3]bool{true, false, false}, false},
		{"pages", ocitest.Quirks{PageSize: 2}, statebackend.LockingExact, [3]bool{true, true, true}, false},
		{"late list", ocitest.Quirks{LateList: 2}, statebackend.LockingRefused, [3]bool{true, true, true}, true},
		{"cached list", ocitest.Quirks{CachedList: true}, statebackend.LockingRefused, [3]bool{true, true, true}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reference := ocitest.New(t, tt.quirks) + "/infra/state"
			o := okara(t, "admin", "doctor", reference, "--json")
			var r doctor.Report
			if err := json.Unmarshal([]byte(o.out), &r); err != nil {
				t.Fatalf("%v: %s", err, o.err)
			}
			v := r.Verdict
			if v.Locking != tt.locking {
				t.Errorf("locking %q, want %q: %s", v.Locking, tt.locking, v.Reason)
			}
			must.Equal(t, "deletes", [3]bool{v.DeleteTag, v.DeleteDigest, v.DigestDropsTags}, tt.deletes)
			if v.Rounds != 200 || (v.Conflicts > 0) != tt.conflicts {
				t.Errorf("%d conflicts in %d rounds", v.Conflicts, v.Rounds)
			}
			refused := tt.locking == statebackend.LockingRefused
			if (o.code == cli.ExitFailure) != refused {
				t.Errorf("exit %d: %s", o.code, o.err)
			}
			var tags []string
			for range 3 { // a late list shows the verdict as well, but only then
				tags = tagsOf(t, reference)
			}
			scratch := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !strings.HasPrefix(tag, "okara-probe-") })
			if deletes := v.DeleteTag || v.DeleteDigest; deletes && len(scratch) > 0 || len(scratch) > 10 {
				t.Errorf("scratch tags stay: %v", scratch)
			}
			push := okara(t, "state", "push", reference, newFile(t, "s", stateText("a", 1)))
			if refused && (push.code != cli.ExitFailure || !strings.Contains(push.err, "locking refused")) {
				t.Errorf("push where locking is refused: exit %d, %s", push.code, push.err)
			}
			if !refused && push.code != cli.ExitOK {
				t.Errorf("push: exit %d, %s", push.code, push.err)
			}
		})
	}
}

// TestDoctorThorough runs the long test, which leaves only records behind.
func TestDoctorThorough(t *testing.T) {
	reference := ocitest.New(t, ocitest.Quirks{}) + "/infra/state"
	var r doctor.Report
	must.Succeed(t, json.Unmarshal([]byte(mustOkara(t, "admin", "doctor", reference, "--thorough", "--no-record", "--json")), &r))
	if v := r.Verdict; v.Rounds != 1000 || v.Conflicts != 0 || v.Locking != statebackend.LockingExact {
		t.Errorf("verdict %+v", v)
	}
	if tags := tagsOf(t, reference); len(tags) > 0 {
		t.Errorf("left behind %v, and nothing was to be recorded", tags)
	}
}

// TestDoctorPeer: a second registry that sees none of the writes.
func TestDoctorPeer(t *testing.T) {
	reference, peer := ocitest.New(t, ocitest.Quirks{})+"/infra/state", ocitest.New(t, ocitest.Quirks{})
	o := okara(t, "admin", "doctor", reference, "--peer", peer)
	if o.code != cli.ExitFailure || !strings.Contains(o.out, "200 of 200 rounds failed") {
		t.Errorf("exit %d\n%s%s", o.code, o.out, o.err)
	}
}

// TestDoctorArtifactsGone: a listed module without versions.
func TestDoctorArtifactsGone(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	mustOkara(t, "publish", "module", newModuleDir(t), "net/vpc/aws", "1.0.0", "--registry", host)
	r := must.Get(oci.OpenRepo(host+"/catalog", oci.Options{}))(t)
	gone := artifact.CatalogEntry{Kind: addr.KindModule, Address: "net/gone/aws", Repository: "modules/net/gone/aws"}
	must.Succeed(t, artifact.AddCatalogEntry(t.Context(), r, gone))
	o := okara(t, "admin", "doctor", "artifacts", "--registry", host)
	if o.code != cli.ExitFailure || !strings.HasPrefix(o.out, host+"/catalog:"+artifact.CatalogTag(gone.Repository)+"  the entry is for modules/net/gone/aws, which has no versions") || !strings.Contains(o.err, "2 repositories examined") {
		t.Errorf("exit %d\n%s%s", o.code, o.out, o.err)
	}
	if o := okara(t, "admin", "doctor", "artifacts", "net/gone/aws", "--registry", host); o.code != cli.ExitNotFound {
		t.Errorf("named: exit %d\n%s", o.code, o.err)
	}
}
