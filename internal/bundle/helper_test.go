// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
)

const moduleRepo = "p/" + bundledModule

func mustModule(t *testing.T, address, version string) addr.ModuleVersion {
	t.Helper()
	m, err := addr.ParseModule(address)
	if err != nil {
		t.Fatal(err)
	}
	return addr.ModuleVersion{Module: m, Version: mustVersion(t, version)}
}

func mustVersion(t *testing.T, s string) addr.Version {
	t.Helper()
	v, err := addr.ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// newDepot returns a depot on host and the client behind it.
func newDepot(t *testing.T, host string, o oci.Options) (*depot.Depot, *oci.Client) {
	t.Helper()
	client, err := oci.New(host, o)
	if err != nil {
		t.Fatal(err)
	}
	return depot.New(depot.Options{Client: client, Layout: addr.Layout{Prefix: "p"}, TempDir: t.TempDir()}), client
}

func mustRepoOf(t *testing.T, c *oci.Client, name string) *oci.Repo {
	t.Helper()
	r, err := c.Repo(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustTags(t *testing.T, r *oci.Repo) []string {
	t.Helper()
	var tags []string
	for tag, err := range r.Tags(t.Context()) {
		if errors.Is(err, oci.ErrNotFound) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	return tags
}

func mustFetch(t *testing.T, r *oci.Repo, ref string) oci.Manifest {
	t.Helper()
	m, err := r.Fetch(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newModule(text string) fstest.MapFS { return fstest.MapFS{"main.tf": {Data: []byte(text)}} }

// publishVersions publishes versions 1.0.0 to 1.N.0 of net/vpc/aws.
func publishVersions(t *testing.T, d *depot.Depot, n int) {
	t.Helper()
	for i := range n {
		tree := newModule(fmt.Sprintf("# version %d\n", i))
		if _, err := d.PublishModule(t.Context(), tree, mustModule(t, "net/vpc/aws", fmt.Sprintf("1.%d.0", i)), depot.ModuleOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func newCosignKey(t *testing.T) (*ecdsa.PrivateKey, *ecdsa.PublicKey) {
	t.Helper()
	private, public, err := signing.NewCosignKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.ParseCosignKey(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := signing.ParseCosignPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key, pub
}

func newKey(t *testing.T) *signing.Key {
	t.Helper()
	k, err := signing.NewKey(signing.KeyOptions{Name: "Test", ECC: true})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func mustPublic(t *testing.T, k *signing.Key) signing.PublicKey {
	t.Helper()
	public, err := k.Public()
	if err != nil {
		t.Fatal(err)
	}
	return public
}
