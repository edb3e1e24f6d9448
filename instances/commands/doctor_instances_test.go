// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestLostInstances finds the state of an unknown instance, and ignores instances that are
// known or have ended.
func TestLostInstances(t *testing.T) {
	client, err := oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	layout := addr.Layout{Prefix: "acme"}
	if found, n, err := lostInstances(t.Context(), client, layout, nil); err != nil || n != 0 || len(found) != 0 {
		t.Fatalf("of a registry without instances: %v, %d, %v", found, n, err)
	}
	queue, err := client.Repo(layout.QueueRepo())
	if err != nil {
		t.Fatal(err)
	}
	const known, ended, lost = "a234567892", "b234567892", "c234567892"
	for _, id := range []string{known, ended, lost} {
		repository, _, err := layout.Instance("sandbox", "vpc", id)
		if err != nil {
			t.Fatal(err)
		}
		err = records.AddInstanceEntry(t.Context(), queue, records.InstanceEntry{ID: id, Template: "sandbox/vpc", Repository: repository})
		if err != nil {
			t.Fatal(err)
		}
		repo, err := client.Repo(repository)
		if err != nil {
			t.Fatal(err)
		}
		if id == ended {
			if err := (records.InstanceRepo{Repo: repo}).PutFinal(t.Context(), id, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
	}
	found, n, err := lostInstances(t.Context(), client, layout, map[string]bool{known: true})
	if err != nil || n != 3 || len(found) != 1 || found[0].Tag != "i-"+lost {
		t.Errorf("%+v of %d, %v, want %s of 3", found, n, err, lost)
	}
}
