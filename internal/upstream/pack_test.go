// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// newHostileGit serves one tag and answers a fetch with a pack.
func newHostileGit(t *testing.T, pack []byte) upstream.Location {
	t.Helper()
	srv := httptest.NewTLSServer(depottest.GitHandler(pack, nil))
	t.Cleanup(srv.Close)
	upstream.InstallGit(srv.Client())
	t.Cleanup(func() { upstream.InstallGit(http.DefaultClient) })
	return must.Get(upstream.ParseLocation("git::" + srv.URL + "/acme/vpc.git?ref=v1.0.0"))(t)
}

// TestGitDeltaBomb fetches a small pack that describes 3.3 GB. It is refused by
// its sums; if the bound is raised, only the child crashes.
//
// Shows: mistakes 35 | a git pack of 16 KB expanded to 3.3 GB and crashed the process, again at
// each start | a child process unpacks it; the sizes of objects and delta targets are summed before
// one is resolved; bytes, time and memory are bounded, as are lists of references
func TestGitDeltaBomb(t *testing.T) {
	pack := depottest.DeltaBomb()
	if len(pack) > 16<<10 {
		t.Fatalf("%d bytes are no small pack", len(pack))
	}
	l := newHostileGit(t, pack)
	for name, limit := range map[string]int64{"sums": 0, "memory": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			g := upstream.Git{MaxBytes: limit}
			_, err := g.Checkout(t.Context(), l, dir)
			if !errors.Is(err, oci.ErrTooLarge) {
				t.Errorf("got %v, want ErrTooLarge", err)
			}
			if want := map[string]string{"sums": "exceeds the allowed size", "memory": "memory"}[name]; err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 1 { // .git
				t.Errorf("written: %v, %v", left, err)
			}
		})
	}
}

// TestGitThatSendsOn fetches from a server with an endless pack, and from one
// with an endless list of references.
//
// Shows: mistakes 35
func TestGitThatSendsOn(t *testing.T) {
	l := newHostileGit(t, bytes.Repeat([]byte("PACK"), 1<<20))
	g := upstream.Git{MaxBytes: 1 << 20}
	if _, err := g.Checkout(t.Context(), l, t.TempDir()); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("a pack without an end: %v, want ErrTooLarge", err)
	}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		fmt.Fprint(w, "001e# service=git-upload-pack\n0000")
		for i := 0; r.Context().Err() == nil; i++ {
			text := fmt.Sprintf("%040x refs/tags/v%d\n", i+1, i)
			if i == 0 {
				text = fmt.Sprintf("%040x refs/tags/v0\x00agent=x\n", 1)
			}
			if _, err := fmt.Fprintf(w, "%04x%s", len(text)+4, text); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	upstream.InstallGit(srv.Client())
	l = must.Get(upstream.ParseLocation("git::" + srv.URL + "/acme/vpc.git"))(t)
	if _, err := g.Tags(t.Context(), l); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("a list without an end: %v, want ErrTooLarge", err)
	}
}

// TestGitBadPacks checks that an invalid pack is refused, and one without the
// commit.
//
// Shows: mistakes 35
func TestGitBadPacks(t *testing.T) {
	whole := &depottest.Pack{Objects: 1}
	whole.Add(3, nil, []byte("a blob"))
	cut := whole.Bytes()[:20]
	lies := &depottest.Pack{Objects: 2}
	lies.Add(3, nil, []byte("a blob"))
	for name, pack := range map[string][]byte{
		"nothing": nil, "text": []byte("<html>"), "cut": cut, "fewer objects": lies.Bytes(), "no commit": whole.Bytes(),
		"delta of nothing": (&depottest.Pack{Objects: 1, Body: []byte{0x61, 0x05}}).Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			g := upstream.Git{}
			if _, err := g.Checkout(t.Context(), newHostileGit(t, pack), t.TempDir()); !errors.Is(err, oci.ErrCorrupt) && !errors.Is(err, oci.ErrNotFound) && !errors.Is(err, oci.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
}
