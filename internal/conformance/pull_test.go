// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/file"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
)

// TestPull fetches a provider and a module from each registry as `oras pull` does: by
// the tag, all layers that have a name, into files.
func TestPull(t *testing.T) {
	key, err := signing.NewKey(signing.KeyOptions{Name: "conformance", ECC: true})
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, c *oci.Client) {
		layout := addr.Layout{Prefix: "conformance/pull"}
		d := depot.New(depot.Options{Client: c, Layout: layout})
		publishModule(t, d)
		provider := publishProvider(t, d, key)
		pull := func(repository, tag string) string {
			repo, err := remote.NewRepository(mustRepo(t, c, "conformance/pull/"+repository).String())
			if err != nil {
				t.Fatal(err)
			}
			repo.PlainHTTP = strings.HasPrefix(c.Host(), "127.")
			dir := t.TempDir()
			store, err := file.New(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if _, err := oras.Copy(t.Context(), repo, tag, store, tag, oras.DefaultCopyOptions); err != nil {
				t.Fatal(err)
			}
			return dir
		}
		dir := pull("providers/acme/dns", provider.Version)
		for platform, want := range provider.Zips {
			got, err := os.ReadFile(filepath.Join(dir, "terraform-provider-dns_"+provider.Version+"_"+platform+".zip"))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, %v", platform, len(got), err)
			}
		}
		if _, err := os.Stat(filepath.Join(pull("modules/net/vpc/aws", "1.0.0"), "net-vpc-aws-1.0.0.zip")); err != nil {
			t.Error(err)
		}
	})
}
