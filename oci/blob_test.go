// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

func TestFileBlob(t *testing.T) {
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	file := filepath.Join(t.TempDir(), "blob")
	content := strings.Repeat("file ", 100_000)
	must.Succeed(t, os.WriteFile(file, []byte(content), 0o600))
	b := must.Get(oci.FileBlob("text/plain", file))(t)
	if want := oci.BytesBlob("text/plain", []byte(content)); b.Digest != want.Digest || b.Size != want.Size {
		t.Errorf("got %s, %d bytes; want %s, %d", b.Digest, b.Size, want.Digest, want.Size)
	}
	must.Succeed(t, r.PushBlob(t.Context(), b))
	if got, err := r.ReadBlob(t.Context(), b.Descriptor, b.Size); err != nil || string(got) != content {
		t.Errorf("read back %d bytes, %v", len(got), err)
	}
	must.Succeed(t, os.WriteFile(file, []byte(strings.ToUpper(content)), 0o600))
	if err := r.PushBlob(t.Context(), b); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("push of a file that changed: %v, want ErrCorrupt", err)
	}
	if _, err := oci.FileBlob("text/plain", file+"x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

func TestEmptyContent(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		r := newRepo(t, host, oci.Options{})
		b := oci.BytesBlob("text/plain", nil)
		must.Succeed(t, r.PushBlob(t.Context(), b))
		if got, err := r.ReadBlob(t.Context(), b.Descriptor, 10); err != nil || len(got) != 0 {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestWrongBlobs serves content that differs from the requested blob.
func TestWrongBlobs(t *testing.T) {
	b := oci.BytesBlob("text/plain", []byte("0123456789"))
	for _, test := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   error
	}{
		{"shorter, announced", func(w http.ResponseWriter) { fmt.Fprint(w, "0123") }, oci.ErrCorrupt},
		{"longer, announced", func(w http.ResponseWriter) { fmt.Fprint(w, "0123456789+") }, oci.ErrCorrupt},
		{"longer, not announced", func(w http.ResponseWriter) { flush(w, "0123456789", "+") }, oci.ErrCorrupt},
		{"other bytes", func(w http.ResponseWriter) { fmt.Fprint(w, "abcdefghij") }, oci.ErrCorrupt},
		{"shorter, not announced", func(w http.ResponseWriter) { flush(w, "0123") }, oci.ErrUnavailable},
		{"another range", func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 5-9/10")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "56789")
		}, oci.ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { test.answer(w) }))
			t.Cleanup(s.Close)
			r := newRepo(t, s.Listener.Addr().String(), oci.Options{Retry: oci.Retry{MaxAttempts: 1}})
			if got, err := r.ReadBlob(t.Context(), b.Descriptor, 100); !errors.Is(err, test.want) {
				t.Errorf("got %q, %v; want %v", got, err, test.want)
			}
		})
	}
}

// flush sends parts without announcing their total length.
func flush(w http.ResponseWriter, parts ...string) {
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
		_ = http.NewResponseController(w).Flush()
	}
}

func TestOffsets(t *testing.T) {
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	b := oci.BytesBlob("text/plain", []byte("0123456789"))
	must.Succeed(t, r.PushBlob(t.Context(), b))
	unknown := b.Descriptor
	unknown.Size = 0
	for _, test := range []struct {
		d      oci.Descriptor
		offset int64
		want   string // "!" is an error
	}{
		{b.Descriptor, 0, "0123456789"},
		{b.Descriptor, 7, "789"},
		{b.Descriptor, 10, ""},
		{b.Descriptor, 11, "!"},
		{b.Descriptor, -1, "!"},
		{unknown, 0, "0123456789"},
		{unknown, 7, "789"},
	} {
		got := "!"
		body, err := r.OpenAt(t.Context(), test.d, test.offset)
		if err == nil {
			all, rerr := io.ReadAll(body)
			body.Close()
			got, err = string(all), rerr
		}
		if got != test.want {
			t.Errorf("size %d, offset %d: got %q, %v; want %q", test.d.Size, test.offset, got, err, test.want)
		}
	}
}

func TestBadReferences(t *testing.T) {
	r := newRepo(t, "registry.invalid", oci.Options{})
	for _, ref := range []string{"", "-x", "a/b", "a b", strings.Repeat("x", 129), "sha256:zz", "md5:d41d8cd98f00b204e9800998ecf8427e"} {
		if _, err := r.Fetch(t.Context(), ref); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("fetch %q: %v, want ErrNotFound", ref, err)
		}
		if _, err := r.Resolve(t.Context(), ref); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("resolve %q: %v, want ErrNotFound", ref, err)
		}
		if err := r.Untag(t.Context(), ref); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("untag %q: %v, want ErrNotFound", ref, err)
		}
		if err := r.PutTag(t.Context(), ref, newArtifact(t, "x").Root); err == nil || errors.Is(err, oci.ErrUnavailable) {
			t.Errorf("put %q: %v, want a refusal before any request", ref, err)
		}
	}
}
