// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	digest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// packages is a front-end with the mirror of one provider, which only one token may read.
type packages struct {
	documents map[string]any // by path
	zip       []byte
	sum       string       // of the program in the zip
	sent      atomic.Int64 // number of zips sent
}

const packageProvider = "registry.example.com/acme/time"

func newPackages(t *testing.T) *packages {
	t.Helper()
	file := tofutest.TimeProvider(t)
	h1, err := dirhash.HashZip(file, dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}
	p := &packages{}
	if p.zip, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	z := must.Get(zip.NewReader(bytes.NewReader(p.zip), int64(len(p.zip))))(t)
	for _, f := range z.File {
		if !strings.HasPrefix(f.Name, "terraform-provider-") {
			continue
		}
		r := must.Get(f.Open())(t)
		d, err := digest.FromReader(r)
		must.Succeed(t, errors.Join(err, r.Close()))
		p.sum = d.Encoded()
	}
	at := map[string]any{"url": "/zips/time.zip", "hashes": []string{h1, "zh:" + digest.FromBytes(p.zip).Encoded()}}
	p.documents = map[string]any{
		"/mirror/" + packageProvider + "/index.json":                        map[string]any{"versions": map[string]any{tofutest.TimeVersion: map[string]any{}}},
		"/mirror/" + packageProvider + "/" + tofutest.TimeVersion + ".json": map[string]any{"archives": map[string]any{tofutest.Platform(): at}},
	}
	return p
}

func (p *packages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, ok := p.documents[r.URL.Path]
	switch {
	case r.URL.Path == "/zips/time.zip": // the signed link needs no token
		p.sent.Add(1)
		_, _ = w.Write(p.zip)
	case r.Header.Get("Authorization") != "Bearer may-read":
		http.Error(w, "this run may not read it", http.StatusForbidden)
	case !ok:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(d)
	}
}

// newPackagesTest runs a module in a sandbox, whose provider tries to change itself.
func newPackagesTest(t *testing.T) (*runsTest, *packages) {
	t.Helper()
	rt, p := newRunsTest(t, sandbox.ModeSandbox), newPackages(t)
	server := httptest.NewTLSServer(p)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	host, _, _ := strings.Cut(rt.spec.Repository, "/")
	rt.options.Packages = 1 << 30
	rt.options.Order = func(_ context.Context, s run.Attempt) (sandbox.Order, error) {
		return sandbox.Order{
			Registry: sandbox.Registry{Prefix: host + "/okara"},
			Server:   sandbox.Server{URL: server.URL, Host: "okara.test", Token: s.Workspace, Mirror: true, CA: ca, Hosts: []string{"registry.example.com"}}, // here the token's right depends on its name
		}, nil
	}
	rt.spec.Workspace = "may-read"
	rt.restart(t)
	rt.uses(t, rt.spec.Repository)
	return rt, p
}

// uses gives an instance the module that uses the provider.
func (rt *runsTest) uses(t *testing.T, repository string) {
	t.Helper()
	repo := must.Get(oci.OpenRepo(repository, oci.Options{}))(t)
	blob := oci.BytesBlob(artifact.MediaZip, depottest.ZipOf(t, map[string]string{"main.tf": `
terraform {
  required_providers {
    time = { source = "` + packageProvider + `" }
  }
}
resource "time_static" "now" {}
resource "terraform_data" "look" {
  provisioner "local-exec" {
    command = <<-EOT
      program=$(echo .terraform/providers/*/*/*/*/*/terraform-provider-*)
      at=$(dirname $program)
      test -L $at && printf 'it is a %s\n' link
      sha256sum $program
      for change in "tee $program" "rm -f $program" "chmod 0777 $at" "touch $at/more" "touch /run/okara/packages/more"; do
        echo bad | $change > /dev/null 2>&1 && printf 'it could %s\n' "$change"
      done
      true
    EOT
  }
}
`}))
	must.Get(repo.EnsureBlob(t.Context(), blob))(t)
	rt.spec.Source.Archive = blob.Digest.String()
}

// attempt runs an apply from scratch, and returns how it ended and its log.
func (rt *runsTest) attempt(t *testing.T) (lifecycle.Result, string) {
	t.Helper()
	rt.spec.Ref.N++
	rt.spec.Ref.Attempt, rt.spec.Took = 0, ""
	rt.next(t)
	h := rt.start(t)
	st := rt.end(t, h)
	ended := rt.spec
	ended.Handle = h
	r, err := rt.local.Log(t.Context(), ended, 0)
	if err != nil || st.State != run.Ended {
		t.Fatalf("%+v, %v", st, err)
	}
	log, err := io.ReadAll(r)
	must.Succeed(t, errors.Join(err, r.Close()))
	return st.Result, string(log)
}

// mustHave makes an attempt that must succeed with the right, unchanged provider.
func (rt *runsTest) mustHave(t *testing.T, p *packages, linked bool) lifecycle.Result {
	t.Helper()
	rt.spec.Workspace = "may-read"
	r, log := rt.attempt(t)
	changed := regexp.MustCompile(`it could [a-z]`).MatchString(log)
	if r.Outcome != lifecycle.Done || !strings.Contains(log, p.sum) || strings.Contains(log, "it is a link") != linked || changed == linked {
		t.Errorf("%+v\n%s", r, log)
	}
	rt.spec.Ref.Kind = lifecycle.RunDestroy // so that the next attempt starts from scratch
	if r, log := rt.attempt(t); r.Outcome != lifecycle.Done {
		t.Errorf("%+v\n%s", r, log)
	}
	rt.spec.Ref.Kind = lifecycle.RunApply
	return r
}

// kept returns the files of the provider that runs share.
func (rt *runsTest) kept(t *testing.T) []string {
	t.Helper()
	return must.Get(filepath.Glob(filepath.Join(rt.options.Storage, "packages", packageProvider, "*", "*", "*", "terraform-provider-*")))(t)
}

// TestTofuRunPackages: one run's package is linked into later ones, which cannot change it. A
// damaged one is fetched again; who may not read the provider does not get it.
func TestTofuRunPackages(t *testing.T) {
	rt, p := newPackagesTest(t)
	rt.spec.Source.Lock = rt.mustHave(t, p, false).Lock
	if n := p.sent.Load(); len(rt.kept(t)) != 1 || n > 4 { // by the tool in each run, and for the cache
		t.Fatalf("kept %v, sent %d times", rt.kept(t), n)
	}
	before := p.sent.Load()
	for range 2 {
		rt.mustHave(t, p, true)
	}
	if n := p.sent.Load(); n != before {
		t.Errorf("sent %d times more", n-before)
	}
	must.Succeed(t, os.WriteFile(rt.kept(t)[0], []byte("damaged"), 0o755))
	rt.mustHave(t, p, true)
	if n := p.sent.Load(); n != before+1 {
		t.Errorf("sent %d times more, want 1", n-before)
	}
	rt.spec.Workspace = "may-not"
	if r, log := rt.attempt(t); r.Outcome != lifecycle.RunFailed || !strings.Contains(log, "rejected the given authentication") || strings.Contains(log, p.sum) {
		t.Errorf("%+v\n%s", r, log)
	}
	if left, err := filepath.Glob(filepath.Join(rt.options.Storage, "runs", "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestTofuRunPackagesAtOnce: many runs at once, one download.
func TestTofuRunPackagesAtOnce(t *testing.T) {
	rt, p := newPackagesTest(t)
	lock := rt.mustHave(t, p, false).Lock
	repo := must.Get(oci.OpenRepo(rt.spec.Repository, oci.Options{}))(t)
	d := must.Get(repo.Stat(t.Context(), digest.Digest(lock)))(t)
	text := must.Get(repo.ReadBlob(t.Context(), d, d.Size))(t)
	must.Succeed(t, os.RemoveAll(filepath.Join(rt.options.Storage, "packages")))
	before := p.sent.Load()
	var specs []run.Attempt
	records := map[string]*lifecycle.Record{}
	for i := range 10 {
		s := rt.spec
		s.Ref = lifecycle.Ref{ID: fmt.Sprintf("abcdefgh%c%c", 'a'+i/5, 'a'+i%5), Kind: lifecycle.RunDrift, N: 1, Attempt: 1, Nonce: "nonce"}
		s.Repository = filepath.Dir(s.Repository) + "/" + s.Ref.ID
		s.Source.Lock = lock
		rt.uses(t, s.Repository)
		repo, err := oci.OpenRepo(s.Repository, oci.Options{})
		if err == nil {
			_, err = repo.EnsureBlob(t.Context(), oci.BytesBlob(d.MediaType, text))
		}
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, s)
		records[s.Ref.ID] = &lifecycle.Record{ID: s.Ref.ID, Run: &lifecycle.Run{N: 1, Attempt: 1, Kind: s.Ref.Kind, Nonce: "nonce"}}
	}
	rt.names(t, records)
	handles := make([]run.Handle, len(specs))
	for i, s := range specs {
		rt.spec = s
		handles[i] = rt.start(t)
	}
	for i, s := range specs {
		rt.spec = s
		if st := rt.end(t, handles[i]); st.State != run.Ended || st.Result.Outcome != lifecycle.Done {
			t.Errorf("%s: %+v", s.Ref.ID, st)
		}
	}
	if n := p.sent.Load() - before; n != 1 {
		t.Errorf("sent %d times for %d runs", n, len(specs))
	}
}
