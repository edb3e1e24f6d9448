// SPDX-License-Identifier: Apache-2.0

package ocitest_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

func newRepo(t *testing.T, q ocitest.Quirks, transport http.RoundTripper) *oci.Repo {
	t.Helper()
	return must.Get(oci.OpenRepo(ocitest.New(t, q)+"/test", oci.Options{Transport: transport, Retry: oci.Retry{MaxAttempts: 1}}))(t)
}

func mustPush(t *testing.T, r *oci.Repo, tag string) oci.Manifest {
	t.Helper()
	m := must.Get(oci.NewManifest(ocispec.Manifest{ArtifactType: "a/b", Config: oci.EmptyBlob().Descriptor, Annotations: map[string]string{"tag": tag}}))(t)
	must.Get(r.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob()}, Root: m}))(t)
	must.Succeed(t, r.PutTag(t.Context(), tag, m))
	return m
}

func mustList(t *testing.T, r *oci.Repo) []string {
	t.Helper()
	l := must.Get(r.Snapshot(t.Context()))(t)
	slices.Sort(l.Tags)
	return l.Tags
}

func TestLateList(t *testing.T) {
	r := newRepo(t, ocitest.Quirks{LateList: 2}, nil)
	mustPush(t, r, "a")
	var seen []int
	for i := range 5 {
		if i == 1 {
			mustPush(t, r, "b")
		}
		seen = append(seen, len(mustList(t, r)))
	}
	// a is missing from two lists after its push, b from the two after its own.
	must.Match(t, "tags in each list", seen, []int{0, 0, 1, 2, 2})
	mustPush(t, r, "a")
	if got := mustList(t, r); len(got) != 2 {
		t.Errorf("a tag that was pushed again is hidden: %v", got)
	}
}

func TestFault(t *testing.T) {
	for _, test := range []struct {
		name       string
		nth, times int
		want       []bool // which of five requests fail
	}{
		{"first", 0, 0, []bool{true, false, false, false, false}},
		{"third", 3, 0, []bool{false, false, true, false, false}},
		{"two", 2, 2, []bool{false, true, true, false, false}},
		{"all from the second", 2, -1, []bool{false, true, true, true, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			fault := &ocitest.Fault{Match: ocitest.On(http.MethodGet, "tags"), Nth: test.nth, Times: test.times, Do: ocitest.Status(400, -1)}
			r := newRepo(t, ocitest.Quirks{}, fault)
			mustPush(t, r, "a")
			var got []bool
			for range 5 {
				_, err := r.Snapshot(t.Context())
				got = append(got, err != nil)
			}
			must.Match(t, "failed", got, test.want)
		})
	}
}

func TestFailBeforeAndAfter(t *testing.T) {
	for _, test := range []struct {
		name  string
		do    ocitest.Act
		there bool
	}{
		{"before", ocitest.FailBefore, false},
		{"after", ocitest.FailAfter, true},
		{"status", ocitest.Status(500, -1), false},
		{"status after", ocitest.StatusAfter(500), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			fault := &ocitest.Fault{Match: ocitest.OnTag(http.MethodPut), Nth: 2, Do: test.do}
			r := newRepo(t, ocitest.Quirks{}, fault)
			m := mustPush(t, r, "a")
			if err := r.PutTag(t.Context(), "b", m); !errors.Is(err, oci.ErrUncertain) {
				t.Fatalf("got %v, want ErrUncertain", err)
			}
			if there := slices.Contains(mustList(t, r), "b"); there != test.there {
				t.Errorf("the tag is there: %v, want %v", there, test.there)
			}
		})
	}
}

func TestStale(t *testing.T) {
	fault := &ocitest.Fault{Match: ocitest.On(http.MethodGet, "tags"), Times: -1, Do: ocitest.Stale()}
	r := newRepo(t, ocitest.Quirks{}, fault)
	mustPush(t, r, "a")
	before := mustList(t, r)
	mustPush(t, r, "b")
	must.Match(t, "the list changed", mustList(t, r), before)
}

// Shows: mistakes 23
func TestHalfLinks(t *testing.T) {
	r := newRepo(t, ocitest.Quirks{HalfLinks: 2}, nil)
	m := must.Get(oci.NewManifest(ocispec.Manifest{ArtifactType: "a/b", Config: oci.EmptyBlob().Descriptor}))(t)
	must.Succeed(t, r.PushBlob(t.Context(), oci.EmptyBlob()))
	for i := range 3 {
		err := r.PutTag(t.Context(), "v1", m)
		e, refused := errors.AsType[*oci.ResponseError](err)
		if i < 2 != refused || refused && !slices.Equal(e.Codes, []string{"DIGEST_INVALID", "MANIFEST_BLOB_UNKNOWN"}) {
			t.Errorf("put %d: %v", i, err)
		}
	}
}
