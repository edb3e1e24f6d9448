// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// sourceRepo returns a repository beside that of newRepo, with some blobs.
func sourceRepo(t *testing.T, host string, o oci.Options, contents ...string) (*oci.Repo, []oci.Blob) {
	t.Helper()
	r := must.Get(oci.OpenRepo(host+"/test/source", o))(t)
	var blobs []oci.Blob
	for _, content := range contents {
		b := oci.BytesBlob("text/plain", []byte(content))
		must.Succeed(t, r.PushBlob(t.Context(), b))
		b.From, b.Open = r, func() (io.ReadCloser, error) { return r.Open(t.Context(), b.Descriptor) }
		blobs = append(blobs, b)
	}
	return r, blobs
}

func mustHave(t *testing.T, r *oci.Repo, b oci.Blob, want string) {
	t.Helper()
	if got, err := r.ReadBlob(t.Context(), b.Descriptor, 1<<20); err != nil || string(got) != want {
		t.Errorf("read back %.40q, %v; want %.40q", got, err, want)
	}
}

// TestMountEverywhere checks on every kind of registry that a blob is in the
// other repository afterwards.
func TestMountEverywhere(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		_, blobs := sourceRepo(t, host, oci.Options{}, "mounted")
		r := newRepo(t, host, oci.Options{})
		must.Succeed(t, r.PushBlob(t.Context(), blobs[0]))
		mustHave(t, r, blobs[0], "mounted")
	})
}

// TestMount counts the requests for a blob of another repository.
func TestMount(t *testing.T) {
	copied := map[string]int{"POST upload": 1, "PUT upload": 1, "GET blob": 1}
	sent := map[string]int{"POST upload": 1, "GET blob": 1}
	for _, test := range []struct {
		name          string
		q             ocitest.Quirks
		first, second map[string]int
	}{
		{"mounted", ocitest.Quirks{}, map[string]int{"POST upload": 1}, map[string]int{"POST upload": 1}},
		{"ignored", ocitest.Quirks{NoMount: true}, copied, copied},
		{"refused", ocitest.Quirks{RefuseMount: true}, map[string]int{"POST upload": 2, "GET blob": 1}, sent}, // and no further mount is requested
	} {
		t.Run(test.name, func(t *testing.T) {
			count := &ocitest.Count{}
			host := ocitest.New(t, test.q)
			_, blobs := sourceRepo(t, host, oci.Options{Transport: count}, "one", "two")
			r := newRepo(t, host, oci.Options{Transport: count})
			for i, want := range []map[string]int{test.first, test.second} {
				count.Take()
				must.Succeed(t, r.PushBlob(t.Context(), blobs[i]))
				if diff := cmp.Diff(count.Take(), want); diff != "" {
					t.Errorf("requests for blob %d (-got +want):\n%s", i+1, diff)
				}
			}
			mustHave(t, r, blobs[0], "one")
			mustHave(t, r, blobs[1], "two")
		})
	}
}

// TestMountElsewhere checks that a blob of another registry, or of the same repository, is sent,
// and that a blob missing in its repository is an error at once.
func TestMountElsewhere(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	source, blobs := sourceRepo(t, host, oci.Options{}, "elsewhere")
	count := &ocitest.Count{}
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{RefuseMount: true}), oci.Options{Transport: count})
	must.Succeed(t, r.PushBlob(t.Context(), blobs[0]))
	own := oci.BytesBlob("text/plain", []byte("own"))
	own.From = r
	must.Succeed(t, r.PushBlob(t.Context(), own))
	must.Match(t, "requests", count.Take(), map[string]int{"POST upload": 2})
	mustHave(t, r, blobs[0], "elsewhere")
	count.Take()

	lost := oci.BytesBlob("text/plain", []byte("lost"))
	lost.From, lost.Open = source, func() (io.ReadCloser, error) { return source.Open(t.Context(), lost.Descriptor) }
	r = newRepo(t, host, oci.Options{Transport: count})
	if err := r.PushBlob(t.Context(), lost); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("a blob that is nowhere: %v, want ErrNotFound", err)
	}
	must.Match(t, "requests for a blob that is nowhere", count.Take(), map[string]int{"POST upload": 1})
}

// TestMountScopes checks that a token for a mount covers both repositories and is reused. A caller
// that may not read the other repository gains nothing by it.
func TestMountScopes(t *testing.T) {
	for _, test := range []struct {
		name   string
		strict bool // no token at all if a part is not permitted
		reads  bool // the caller may read the other repository
		scopes []string
		want   map[string]int
	}{
		{"both", false, true, []string{"repository:test/repo:pull,push repository:test/source:pull"}, map[string]int{"GET token": 1, "POST upload": 4}},
		{"one", false, false, nil, nil},
		{"one, strict", true, false, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			issuer := &ocitest.Issuer{Users: map[string]string{"all": "password", "u": "password"}, Strict: test.strict, Allow: func(user, repository, _ string) bool {
				return user == "all" || user == "u" && (test.reads || repository == "test/repo")
			}}
			host := ocitest.New(t, ocitest.Quirks{Auth: issuer})
			_, blobs := sourceRepo(t, host, oci.Options{Credential: login("all", "password")}, "one", "two")
			before := len(issuer.Scopes())
			count := &ocitest.Count{}
			var rejected int
			r := newRepo(t, host, oci.Options{
				Credential: login("u", "password"), Transport: count, Rejected: func(string, string, oci.Credential, bool) { rejected++ },
			})
			for i := range blobs {
				must.Succeed(t, r.PushBlob(t.Context(), blobs[i]))
			}
			must.Succeed(t, r.PushBlob(t.Context(), oci.BytesBlob("text/plain", []byte("three"))))
			mustHave(t, r, blobs[1], "two")
			if rejected > 0 {
				t.Errorf("the credential for a repository was dropped %d times, since it does not serve another", rejected)
			}
			got := count.Take()
			delete(got, "GET blob")
			if test.want != nil && cmp.Diff(got, test.want) != "" {
				t.Errorf("requests (-got +want):\n%s", cmp.Diff(got, test.want))
			}
			if scopes := issuer.Scopes()[before:]; test.scopes != nil && cmp.Diff(scopes, test.scopes) != "" {
				t.Errorf("scopes (-got +want):\n%s", cmp.Diff(scopes, test.scopes))
			}
		})
	}
}

// TestMountGuarded mounts at a registry that checks the tokens itself.
func TestMountGuarded(t *testing.T) {
	g := ocitest.NewTokens(t, map[string]string{"u": "password"})
	o := oci.Options{Credential: login("u", "password")}
	_, blobs := sourceRepo(t, g.Host, o, "guarded")
	count := &ocitest.Count{}
	o.Transport = count
	r := newRepo(t, g.Host, o)
	must.Succeed(t, r.PushBlob(t.Context(), blobs[0]))
	if n := count.Take(); n["POST upload"] != 2 || n["PUT upload"] != 0 { // without a token, and with one
		t.Errorf("requests: %v, want a mount", n)
	}
	mustHave(t, r, blobs[0], "guarded")
}

// TestSinglePost checks that small blobs are sent with the POST alone if the
// registry is known to support that, or if the first small one has shown it.
func TestSinglePost(t *testing.T) {
	large := strings.Repeat("x", 1<<20+1)
	for _, test := range []struct {
		name    string
		q       ocitest.Quirks
		o       oci.Options
		content string
		want    map[string]int
	}{
		{"small", ocitest.Quirks{}, oci.Options{SinglePost: true}, "small", map[string]int{"POST upload": 1}},
		{"large", ocitest.Quirks{}, oci.Options{SinglePost: true}, large, map[string]int{"POST upload": 1, "PUT upload": 1}},
		{"empty", ocitest.Quirks{}, oci.Options{SinglePost: true}, "", map[string]int{"POST upload": 1, "PUT upload": 1}},
		{"not taken", ocitest.Quirks{NoSinglePost: true}, oci.Options{SinglePost: true}, "small", map[string]int{"POST upload": 1, "PUT upload": 1}},
		{"not known", ocitest.Quirks{}, oci.Options{}, "small", map[string]int{"POST upload": 1}},
		{"not known, less small", ocitest.Quirks{}, oci.Options{}, large[:64<<10+1], map[string]int{"POST upload": 1, "PUT upload": 1}},
		{"not known, not taken", ocitest.Quirks{NoSinglePost: true}, oci.Options{}, "small", map[string]int{"POST upload": 1, "PUT upload": 1}},
		{"refused", ocitest.Quirks{RefuseSinglePost: true}, oci.Options{}, "small", map[string]int{"POST upload": 2, "PUT upload": 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			count := &ocitest.Count{}
			test.o.Transport = count
			r := newRepo(t, ocitest.New(t, test.q), test.o)
			b := oci.BytesBlob("text/plain", []byte(test.content))
			must.Succeed(t, r.PushBlob(t.Context(), b))
			must.Match(t, "requests", count.Take(), test.want)
			if got, err := r.ReadBlob(t.Context(), b.Descriptor, 2<<20); err != nil || string(got) != test.content {
				t.Errorf("read back %d bytes, %v", len(got), err)
			}
			wrong := b
			wrong.Open = oci.BytesBlob("", []byte(strings.Repeat("?", len(test.content)))).Open
			wrong.Digest = oci.BytesBlob("", []byte("other")).Digest
			if err := r.PushBlob(t.Context(), wrong); !errors.Is(err, oci.ErrCorrupt) {
				t.Errorf("other bytes than the digest: %v, want ErrCorrupt", err)
			}
		})
	}
}

// TestSinglePostOnce checks that a registry without support is sent the bytes
// of only one blob twice.
func TestSinglePostOnce(t *testing.T) {
	for name, test := range map[string]struct {
		q    ocitest.Quirks
		sent int64
	}{
		"not taken": {ocitest.Quirks{NoSinglePost: true}, 4},
		"refused":   {ocitest.Quirks{RefuseSinglePost: true}, 4},
		"taken":     {ocitest.Quirks{}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			r := newRepo(t, ocitest.New(t, test.q), oci.Options{Transport: &ocitest.Fault{Times: -1, Do: func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
				sent.Add(req.ContentLength)
				return next.RoundTrip(req)
			}}})
			for _, content := range []string{"1", "2", "3"} {
				must.Succeed(t, r.PushBlob(t.Context(), oci.BytesBlob("text/plain", []byte(content))))
			}
			must.Equal(t, "bytes were sent", sent.Load(), test.sent)
		})
	}
}
