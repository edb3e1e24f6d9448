// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// quickRetry keeps tests with retries fast.
var quickRetry = oci.Retry{MaxAttempts: 4, InitialBackoff: time.Millisecond, MaxBackoff: 2 * time.Second}

func newRepo(t *testing.T, host string, o oci.Options) *oci.Repo {
	t.Helper()
	if o.Retry == (oci.Retry{}) {
		o.Retry = quickRetry
	}
	return must.Get(oci.OpenRepo(host+"/test/repo", o))(t)
}

// newArtifact returns a small complete artifact; other text gives another digest.
func newArtifact(t *testing.T, text string) oci.Artifact {
	t.Helper()
	blob := oci.BytesBlob("text/plain", []byte(text))
	m := must.Get(oci.NewManifest(ocispec.Manifest{
		ArtifactType: "application/vnd.okara.test",
		Config:       oci.EmptyBlob().Descriptor,
		Layers:       []oci.Descriptor{blob.Descriptor},
		Annotations:  map[string]string{"text": text},
	}))(t)
	return oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob(), blob}, Root: m}
}

func mustPush(t *testing.T, r *oci.Repo, tag, text string) oci.Manifest {
	t.Helper()
	a := newArtifact(t, text)
	must.Get(r.Push(t.Context(), a))(t)
	if tag != "" {
		must.Succeed(t, r.PutTag(t.Context(), tag, a.Root))
	}
	return a.Root
}

func TestRoundTrip(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		r := newRepo(t, host, oci.Options{})
		ctx := t.Context()
		if _, err := r.Fetch(ctx, "none"); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("fetch of nothing: %v", err)
		}
		if _, err := r.Resolve(ctx, "none"); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("resolve of nothing: %v", err)
		}
		if _, err := r.Snapshot(ctx); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("tags of nothing: %v", err)
		}
		m := mustPush(t, r, "v1", "hello")
		for _, ref := range []string{"v1", m.Digest.String()} {
			got := must.Get(r.Fetch(ctx, ref))(t)
			if diff := cmp.Diff(got, m); diff != "" {
				t.Errorf("fetch %s (-got +want):\n%s", ref, diff)
			}
			d := must.Get(r.Resolve(ctx, ref))(t)
			if d.Digest != m.Digest || d.Size != m.Size || d.MediaType != m.MediaType {
				t.Errorf("resolve %s: %v", ref, d)
			}
		}
		i := must.Get(m.Image())(t)
		b, err := r.ReadBlob(ctx, i.Layers[0], 100)
		if err != nil || string(b) != "hello" {
			t.Errorf("read blob: %q, %v", b, err)
		}
		if _, err := r.ReadBlob(ctx, i.Layers[0], 4); !errors.Is(err, oci.ErrTooLarge) {
			t.Errorf("read blob over the limit: %v", err)
		}
		at := must.Get(r.OpenAt(ctx, i.Layers[0], 3))(t)
		defer at.Close()
		if b, err := io.ReadAll(at); err != nil || string(b) != "lo" {
			t.Errorf("open at 3: %q, %v", b, err)
		}
	})
}

func TestTags(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		r := newRepo(t, host, oci.Options{})
		m := mustPush(t, r, "", "tags")
		want := []string{"a", "b", "c", "d", "e", "f", "g"}
		for _, tag := range want {
			must.Succeed(t, r.PutTag(t.Context(), tag, m))
		}
		var got []string
		for tag, err := range r.Tags(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, tag)
		}
		slices.Sort(got)
		must.Match(t, "tags", got, want)
		l := must.Get(r.Snapshot(t.Context()))(t)
		slices.Sort(l.Tags)
		must.Match(t, "snapshot", l.Tags, want)
		if l.Date.IsZero() || l.Pages == 0 || l.Cached {
			t.Errorf("snapshot: date %v, pages %d, cached %v", l.Date, l.Pages, l.Cached)
		}
	})
}

// Shows: registries 24 | only the first page of tag lists is read |
// apparentlymart/oci-distribution-terraform-registry
func TestTagPages(t *testing.T) {
	for _, test := range []struct {
		name  string
		q     ocitest.Quirks
		pages int
	}{
		{"one", ocitest.Quirks{}, 1},
		{"two by two", ocitest.Quirks{PageSize: 2}, 3},
		{"absolute", ocitest.Quirks{PageSize: 2, AbsoluteLinks: true}, 3},
		{"endless", ocitest.Quirks{PageSize: 2, EndlessLink: true}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRepo(t, ocitest.New(t, test.q), oci.Options{})
			m := mustPush(t, r, "", "pages")
			for _, tag := range []string{"a", "b", "c", "d", "e"} {
				must.Succeed(t, r.PutTag(t.Context(), tag, m))
			}
			if l := must.Get(r.Snapshot(t.Context()))(t); len(l.Tags) != 5 || l.Pages != test.pages {
				t.Errorf("got %d tags on %d pages, want 5 on %d", len(l.Tags), l.Pages, test.pages)
			}
		})
	}
}

func TestCachedList(t *testing.T) {
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{CachedList: true}), oci.Options{})
	mustPush(t, r, "a", "cached")
	if l, err := r.Snapshot(t.Context()); err != nil || !l.Cached {
		t.Errorf("cached %v, %v; want true", l.Cached, err)
	}
}

func TestDelete(t *testing.T) {
	for _, test := range []struct {
		name          string
		q             ocitest.Quirks
		untag, delete error
	}{
		{"both", ocitest.Quirks{}, nil, nil},
		{"none", ocitest.Quirks{NoDelete: true}, oci.ErrUnsupported, oci.ErrUnsupported},
		{"digest only", ocitest.Quirks{DigestDeleteOnly: true}, oci.ErrUnsupported, nil},
		{"tag only", ocitest.Quirks{TagDeleteOnly: true}, nil, oci.ErrUnsupported},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRepo(t, ocitest.New(t, test.q), oci.Options{})
			m := mustPush(t, r, "a", "delete")
			if err := r.Untag(t.Context(), "a"); !errors.Is(err, test.untag) {
				t.Errorf("untag: %v, want %v", err, test.untag)
			}
			if err := r.Delete(t.Context(), m.Descriptor); !errors.Is(err, test.delete) {
				t.Errorf("delete: %v, want %v", err, test.delete)
			}
			_, err := r.Resolve(t.Context(), "a")
			if gone := errors.Is(err, oci.ErrNotFound); gone != (test.untag == nil || test.delete == nil) {
				t.Errorf("tag afterwards: %v", err)
			}
		})
	}
}

// TestRequests pins the requests of each call on a warm connection: state and
// the front-end rely on the numbers.
func TestRequests(t *testing.T) {
	count := &ocitest.Count{}
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: count})
	ctx := t.Context()
	a := newArtifact(t, "counted")
	for _, step := range []struct {
		name string
		do   func() error
		want map[string]int
	}{
		{"push blob", func() error { return r.PushBlob(ctx, a.Blobs[0]) }, map[string]int{"POST upload": 1}},
		{"ensure missing", func() error { _, err := r.EnsureBlob(ctx, a.Blobs[1]); return err }, map[string]int{"HEAD blob": 1, "POST upload": 1}},
		{"ensure present", func() error { _, err := r.EnsureBlob(ctx, a.Blobs[1]); return err }, map[string]int{"HEAD blob": 1}},
		{"put tag", func() error { return r.PutTag(ctx, "t", a.Root) }, map[string]int{"PUT manifest": 1}},
		{"put manifest", func() error { return r.PutManifest(ctx, a.Root) }, map[string]int{"PUT manifest": 1}},
		{"snapshot", func() error { _, err := r.Snapshot(ctx); return err }, map[string]int{"GET tags": 1}},
		{"resolve", func() error { _, err := r.Resolve(ctx, "t"); return err }, map[string]int{"HEAD manifest": 1}},
		{"fetch", func() error { _, err := r.Fetch(ctx, "t"); return err }, map[string]int{"GET manifest": 1}},
		{"read blob", func() error { _, err := r.ReadBlob(ctx, a.Blobs[1].Descriptor, 100); return err }, map[string]int{"GET blob": 1}},
		{"stat", func() error {
			d, err := r.Stat(ctx, a.Blobs[1].Digest)
			if err == nil && d.Size != a.Blobs[1].Size {
				t.Errorf("stat: size %d, want %d", d.Size, a.Blobs[1].Size)
			}
			return err
		}, map[string]int{"HEAD blob": 1}},
		{"read inline", func() error { _, err := r.ReadBlob(ctx, oci.EmptyBlob().Descriptor, 100); return err }, map[string]int{}},
		{"untag", func() error { return r.Untag(ctx, "t") }, map[string]int{"DELETE manifest": 1}},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		must.Match(t, step.name+": requests", count.Take(), step.want)
	}
}

func TestPutTagMissingBlob(t *testing.T) {
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	err := r.PutTag(t.Context(), "a", newArtifact(t, "nothing pushed").Root)
	e, ok := errors.AsType[*oci.ResponseError](err)
	if !ok || !e.HasCode("MANIFEST_BLOB_UNKNOWN") || errors.Is(err, oci.ErrUncertain) {
		t.Errorf("got %v, want MANIFEST_BLOB_UNKNOWN", err)
	}
}

func TestImmutableTag(t *testing.T) {
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{Immutable: true}), oci.Options{})
	m := mustPush(t, r, "1.0.0", "one")
	if err := r.PutTag(t.Context(), "1.0.0", m); err != nil {
		t.Errorf("same bytes: %v", err)
	}
	other := mustPush(t, r, "", "two")
	if err := r.PutTag(t.Context(), "1.0.0", other); !errors.Is(err, oci.ErrExists) {
		t.Errorf("other bytes: %v, want ErrExists", err)
	}
}

func TestReferrers(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		r := newRepo(t, host, oci.Options{})
		subject := mustPush(t, r, "v1", "subject")
		if got, err := r.Referrers(t.Context(), subject.Descriptor, ""); err != nil || len(got) != 0 {
			t.Fatalf("before: %v, %v", got, err)
		}
		var want []string
		for _, kind := range []string{"application/vnd.a", "application/vnd.b"} {
			m := must.Get(oci.NewManifest(ocispec.Manifest{
				ArtifactType: kind, Config: oci.EmptyBlob().Descriptor, Subject: &subject.Descriptor,
			}))(t)
			for range 2 { // a repetition changes nothing
				must.Succeed(t, r.PutReferrer(t.Context(), m, subject.Descriptor))
			}
			want = append(want, m.Digest.String())
		}
		all, err := r.Referrers(t.Context(), subject.Descriptor, "")
		if err != nil || len(all) != 2 {
			t.Fatalf("all: %v, %v", all, err)
		}
		one, err := r.Referrers(t.Context(), subject.Descriptor, "application/vnd.b")
		if err != nil || len(one) != 1 || one[0].Digest.String() != want[1] {
			t.Errorf("of type b: %v, %v; want %s", one, err, want[1])
		}
	})
}

func TestFreshDigest(t *testing.T) {
	count := &ocitest.Count{}
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{FreshMissing: 2}), oci.Options{Transport: count})
	m := mustPush(t, r, "", "fresh")
	count.Take()
	must.Get(r.Fetch(t.Context(), m.Digest.String()))(t)
	must.Equal(t, "requests", count.Take()["GET manifest"], 3)
	gone := newArtifact(t, "never pushed")
	if _, err := r.Fetch(t.Context(), gone.Root.Digest.String()); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("unknown digest: %v", err)
	}
	must.Equal(t, "requests for an unknown digest", count.Take()["GET manifest"], 1)
}

func TestOpenOrRedirect(t *testing.T) {
	b := oci.BytesBlob("text/plain", []byte("content"))
	for _, test := range []struct {
		name, to string
		want     string
	}{
		{"no redirect", "", ""},
		{"other host over https", "https://blobs.example.com/x/", "https://blobs.example.com/x/" + b.Digest.String()},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRepo(t, ocitest.New(t, ocitest.Quirks{RedirectBlobs: test.to}), oci.Options{})
			must.Succeed(t, r.PushBlob(t.Context(), b))
			body, u := must.GetBoth(r.OpenOrRedirect(t.Context(), b.Descriptor, 2))(t)
			if test.want != "" {
				if u == nil || u.String() != test.want {
					t.Errorf("redirect to %v, want %s", u, test.want)
				}
				return
			}
			defer body.Close()
			if got, err := io.ReadAll(body); err != nil || string(got) != "ntent" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestNoRange(t *testing.T) {
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{NoRange: true}), oci.Options{})
	b := oci.BytesBlob("text/plain", []byte("content"))
	must.Succeed(t, r.PushBlob(t.Context(), b))
	body := must.Get(r.OpenAt(t.Context(), b.Descriptor, 4))(t)
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != "ent" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestManifestLimit(t *testing.T) {
	_, err := oci.NewManifest(ocispec.Manifest{Annotations: map[string]string{"x": string(bytes.Repeat([]byte("x"), oci.MaxManifest))}})
	if !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("new: %v, want ErrTooLarge", err)
	}
	big := &ocitest.Fault{Match: ocitest.On(http.MethodGet, "manifest"), Do: ocitest.Respond(ocispec.MediaTypeImageManifest, "{"+string(bytes.Repeat([]byte(" "), oci.MaxManifest)))}
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: big})
	if _, err := r.Fetch(t.Context(), "big"); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("fetch: %v, want ErrTooLarge", err)
	}
}

func TestFetchCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true})
	if _, err := r.Fetch(ctx, "a"); !errors.Is(err, context.Canceled) || errors.Is(err, oci.ErrUnavailable) {
		t.Errorf("got %v, want canceled", err)
	}
}
