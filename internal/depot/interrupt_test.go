// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
)

// died fails every request from the nth on, as after kill -9; with after the nth takes effect.
func died(n int, after bool, base http.RoundTripper) http.RoundTripper {
	do := ocitest.FailBefore
	if after {
		do = ocitest.FailAfter
	}
	return &ocitest.Fault{
		Base: &ocitest.Fault{Base: base, Nth: n, Do: do},
		Nth:  n + 1, Times: -1, Do: ocitest.FailBefore,
	}
}

// arrivals counts blobs received, without small ones, which cost as much as a HEAD.
type arrivals struct{ n atomic.Int64 }

func (a *arrivals) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && ocitest.On("", "upload")(r) && r.ContentLength > 64<<10 && resp.StatusCode == http.StatusCreated {
		a.n.Add(1)
	}
	return resp, err
}

// publisher publishes one version with a depot.
type publisher func(t *testing.T, d *depot.Depot) (depot.Published, error)

// TestInterruptedPublish interrupts at each request, before and after its effect: no broken version
// is visible, and the next run finishes without sending a large blob again.
//
// Shows: registries 12 | a version that is visible before it is complete | several
func TestInterruptedPublish(t *testing.T) {
	m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
	module := depottest.NewModule("locals {}\n")
	large := make([]byte, 100<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // never fails
	module["large.bin"] = &fstest.MapFile{Data: large}
	dist := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
	depottest.Sign(t, dist, mustKey(t))
	release := depottest.NewRelease(t, mustKey(t), "linux_amd64", "darwin_arm64")
	source, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	must.Get(source.PublishModule(t.Context(), module, m, depot.ModuleOptions{}))(t)
	file := filepath.Join(t.TempDir(), "b.tar")
	item := must.Get(bundle.Select(t.Context(), source, addr.Selection{Item: m.Module.Item()}))(t)
	must.Get(bundle.Create(t.Context(), source, file, []bundle.Item{item}, bundle.CreateOptions{}))(t)
	for name, c := range map[string]struct {
		repository, tag string
		run             publisher
	}{
		"module": {depottest.ModuleRepo, "1.0.0", func(t *testing.T, d *depot.Depot) (depot.Published, error) {
			return d.PublishModule(t.Context(), module, m, depot.ModuleOptions{})
		}},
		"edition": {depottest.ModuleRepo, "1.0.0", func(t *testing.T, d *depot.Depot) (depot.Published, error) {
			return d.PublishModule(t.Context(), module, m, depot.ModuleOptions{Policy: depot.PolicyEditions})
		}},
		"provider": {depottest.ProviderRepo, "1.2.3", func(t *testing.T, d *depot.Depot) (depot.Published, error) {
			return d.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{Keys: []signing.PublicKey{depottest.MustPublic(t, mustKey(t))}})
		}},
		"mirror": {growRepo, "1.2.3", func(t *testing.T, d *depot.Depot) (depot.Published, error) {
			return d.MirrorProvider(t.Context(), release, depottest.UpstreamDNS(), depottest.MustVersion(t, "1.2.3"), depot.MirrorOptions{})
		}},
		"bundle load": {depottest.ModuleRepo, "1.0.0", func(t *testing.T, d *depot.Depot) (depot.Published, error) {
			b := must.Get(bundle.Open(file))(t)
			defer b.Close()
			report, err := bundle.Load(t.Context(), d, b, bundle.LoadOptions{})
			return depot.Published{Warnings: report.Warnings}, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			all := &arrivals{}
			d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: all})
			must.Get(c.run(t, d))(t)
			uploads := int(all.n.Load())
			if c.repository == depottest.ModuleRepo && uploads != 2 {
				t.Errorf("%d large blobs, want the tar and the zip", uploads)
			}
			total := 0
			for n := 1; ; n++ {
				done := false
				for _, after := range []bool{false, true} {
					host := ocitest.New(t, ocitest.Quirks{})
					arrived := &arrivals{}
					done = interrupt(t, host, died(n, after, arrived), arrived, c.repository, c.tag, c.run, uploads)
				}
				if done {
					break
				}
				total = n
			}
			if total < 8 {
				t.Errorf("only %d requests were interrupted", total)
			}
		})
	}
}

// interrupt runs on a broken, then a working transport, and reports the first.
func interrupt(t *testing.T, host string, broken http.RoundTripper, arrived *arrivals, repository, tag string, run publisher, uploads int) bool {
	t.Helper()
	d, _ := depottest.NewDepot(t, host, oci.Options{Transport: broken, Retry: oci.Retry{MaxAttempts: 1}})
	out, err := run(t, d)
	again := &arrivals{}
	d, client := depottest.NewDepot(t, host, oci.Options{Transport: again})
	r := depottest.MustRepo(t, client, repository)
	if tags := depottest.MustTags(t, r); slices.Contains(tags, tag) {
		mustBeComplete(t, r, tag)
	}
	if _, err := run(t, d); err != nil {
		t.Fatalf("second run: %v", err)
	}
	mustBeComplete(t, r, tag)
	if sent, n := int(again.n.Load()), int(arrived.n.Load()); sent > uploads-n { // fewer: one arrived, but its answer was lost
		t.Errorf("the second run sent %d blobs although %d of %d had arrived", sent, n, uploads)
	}
	return err == nil && len(out.Warnings) == 0
}

// mustBeComplete fetches everything that the tag needs.
func mustBeComplete(t *testing.T, r *oci.Repo, tag string) {
	t.Helper()
	if err := complete(t, r, depottest.MustFetch(t, r, tag)); err != nil {
		t.Errorf("%s is visible and broken: %v", tag, err)
	}
}

func complete(t *testing.T, r *oci.Repo, m oci.Manifest) error {
	if index, err := m.Index(); err == nil {
		for _, child := range index.Manifests {
			fetched, err := r.Fetch(t.Context(), child.Digest.String())
			if err != nil {
				return err
			}
			if err := complete(t, r, fetched); err != nil {
				return err
			}
		}
		return nil
	}
	image, err := m.Image()
	if err != nil {
		return err
	}
	for _, blob := range append(image.Layers, image.Config) {
		if ok, err := r.HasBlob(t.Context(), blob); err != nil || !ok {
			return errors.Join(fmt.Errorf("blob %s is missing", blob.Digest), err)
		}
	}
	return nil
}
