// SPDX-License-Identifier: Apache-2.0

package records_test

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestInstanceRequests counts the requests of an instance's first run, without those for
// its state, with a queue that exists already.
func TestInstanceRequests(t *testing.T) {
	ctx, count := t.Context(), &ocitest.Count{}
	client := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: count, SinglePost: true, PlainHTTP: true}))(t)
	repo := func(name string) *oci.Repo {
		return must.Get(client.Repo(name))(t)
	}
	module, queue := repo("modules/net"), repo("queue")
	zip := oci.BytesBlob(artifact.MediaZip, []byte("PK"))
	for _, b := range []oci.Blob{oci.EmptyBlob(), zip} {
		must.Succeed(t, module.PushBlob(ctx, b))
	}
	zip.From, zip.Open = module, func() (io.ReadCloser, error) { return module.Open(ctx, zip.Descriptor) }
	i := records.InstanceRepo{Repo: repo("instances/abc"), Sealer: newInstanceSealer(t)}
	entry := func(id string) func() error {
		return func() error {
			return records.AddInstanceEntry(ctx, queue, records.InstanceEntry{ID: id, Template: "a/b"})
		}
	}
	a := records.Attempt{ID: "abc", N: 1, Attempt: 1, Nonce: "n"}
	source := records.Source{Zip: zip, Template: []byte("{}2"), First: true}
	own := source
	own.Zip.From, own.First = i.Repo, false
	for _, step := range []struct {
		name string
		do   func() error
		want map[string]int
	}{
		{"the first entry", entry("k7m2p9x4tq"), map[string]int{"PUT manifest": 2, "POST upload": 1}},
		{"one more", entry("k7m2p9x4tr"), map[string]int{"PUT manifest": 1}},
		{"the same", entry("k7m2p9x4tr"), map[string]int{"PUT manifest": 1}},
		{"source", func() error { return i.PutSource(ctx, "abc", 1, source) }, map[string]int{"POST upload": 3, "PUT manifest": 1}},
		{"source of a later run", func() error { return i.PutSource(ctx, "abc", 2, own) }, map[string]int{"HEAD manifest": 1, "POST upload": 1, "PUT manifest": 1}},
		{"result", func() error {
			return i.PutRun(ctx, a, records.RunFiles{Result: []byte(`{"nonce":"n"}`), Log: []byte("log"), Unlisted: true})
		}, map[string]int{"POST upload": 2, "PUT manifest": 1}},
		{"reading it", func() error { _, err := i.Run(ctx, a); return err }, map[string]int{"GET manifest": 1}},
	} {
		count.Take()
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, count.Take()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestSourceLostMount: a blob is sent if the registry claims to have mounted it but does
// not have it.
func TestSourceLostMount(t *testing.T) {
	ctx := t.Context()
	host := ocitest.New(t, ocitest.Quirks{})
	zip := oci.BytesBlob(artifact.MediaZip, []byte("PK"))
	i := records.InstanceRepo{Repo: ocitest.Repo(t, host)}
	zip.From = i.Repo // it is not in that repository
	must.Succeed(t, i.PutSource(ctx, "abc", 1, records.Source{Zip: zip}))
	if b, err := i.Repo.ReadBlob(ctx, zip.Descriptor, 10); err != nil || string(b) != "PK" {
		t.Errorf("%q, %v", b, err)
	}
}
