// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestEntryOfAVersion checks the entry of a Version without a target.
func TestEntryOfAVersion(t *testing.T) {
	v := &v1alpha1.Version{Spec: v1alpha1.VersionSpec{
		Address: "net/vpc/aws", Source: "github.com/acme/modules", Subdir: "modules/vpc", TagPrefix: "vpc-", Version: "1.0.0", DeletionPolicy: v1alpha1.DeletionYank,
	}}
	e := entryOf(v)
	if e.err != nil || len(e.set.Modules) != 1 {
		t.Fatalf("%v, %+v", e.err, e.set)
	}
	if m := e.set.Modules[0]; m.Subdir != "modules/vpc" || m.Source.TagPrefix != "vpc-" || e.run.DeletionPolicy != v1alpha1.DeletionYank {
		t.Errorf("%+v, %+v", m, e.run)
	}
	e = entryOf(&v1alpha1.Version{Spec: v1alpha1.VersionSpec{Address: "hashicorp/aws", Version: "1.0.0", Platforms: []string{"linux_amd64"}}})
	if e.err != nil || len(e.set.Providers) != 1 || len(e.set.Providers[0].Platforms) != 1 || e.set.Providers[0].Platforms[0].String() != "linux_amd64" {
		t.Errorf("%v, %+v", e.err, e.set)
	}
}

// TestOmittedIsSaid checks that a status says what a run left out.
func TestOmittedIsSaid(t *testing.T) {
	v := (&found{}).verdict()
	if got := addOmitted(v, nil); got.Message != v.Message {
		t.Errorf("got %q", got.Message)
	}
	got := addOmitted(v, []supply.Difference{{Version: "1.2.3.4", Reason: "no version"}, {Version: "1.0.0", Reason: "the origin has no package for plan9_arm"}})
	must.Equal(t, "value", got.Message, v.Message+"; left out: 1.2.3.4: no version; 1.0.0: the origin has no package for plan9_arm")
}
