// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestLostInstances finds the state of an unknown instance, and ignores instances that are
// known or have ended.
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
		must.Succeed(t, records.AddInstanceEntry(t.Context(), queue, records.InstanceEntry{ID: id, Template: "sandbox/vpc", Repository: repository}))
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
