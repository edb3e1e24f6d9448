// SPDX-License-Identifier: Apache-2.0

package records_test

import (
	"errors"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

func TestInstanceEntry(t *testing.T) {
	c := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true}))(t)
	r := must.Get(c.Repo("acme/queue"))(t)
	want := records.InstanceEntry{ID: "k7m2p9x4tq", Template: "sandbox/vpc", Repository: "acme/instances/sandbox/vpc/k7m2p9x4tq"}
	if _, err := records.ReadInstanceEntry(t.Context(), r, want.ID); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("before it is there: %v", err)
	}
	for range 2 { // it may be repeated
		must.Succeed(t, records.AddInstanceEntry(t.Context(), r, want))
	}
	if got, err := records.ReadInstanceEntry(t.Context(), r, want.ID); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if err := records.AddInstanceEntry(t.Context(), r, records.InstanceEntry{ID: "../x"}); err == nil {
		t.Error("an id that is none was taken")
	}
	for tag, want := range map[string]string{"i-k7m2p9x4tq": "k7m2p9x4tq", "i-x": "", "r-k7m2p9x4tq": "", "k7m2p9x4tq": ""} {
		if got := records.EntryInstance(tag); got != want {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
	}
}
