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
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestPull fetches by tag from each registry as `oras pull` does.
func TestPull(t *testing.T) {
	key := must.Get(signing.NewKey(signing.KeyOptions{Name: "conformance", ECC: true}))(t)
	each(t, func(t *testing.T, c *oci.Client) {
		layout := addr.Layout{Prefix: "conformance/pull"}
		d := depot.New(depot.Options{Client: c, Layout: layout})
		publishModule(t, d)
		provider := publishProvider(t, d, key)
		pull := func(repository, tag string) string {
			repo := orasRepo(t, mustRepo(t, c, "conformance/pull/"+repository))
			dir := t.TempDir()
			store := must.Get(file.New(dir))(t)
			defer store.Close()
			must.Get(oras.Copy(t.Context(), repo, tag, store, tag, oras.DefaultCopyOptions))(t)
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

// TestCopiedSignature finds a signature after `oras copy --recursive`, which copies no tags.
func TestCopiedSignature(t *testing.T) {
	each(t, func(t *testing.T, c *oci.Client) {
		d := depot.New(depot.Options{Client: c, Layout: addr.Layout{Prefix: "conformance/from"}})
		publishModule(t, d)
		from, to := mustRepo(t, c, "conformance/from/modules/net/vpc/aws"), mustRepo(t, c, "conformance/to/modules/net/vpc/aws")
		subject := must.Get(from.Resolve(t.Context(), "1.0.0"))(t)
		payload := must.Get(evidence.CosignPayload(from.String(), subject.Digest))(t)
		for _, signature := range []string{"first", "second"} {
			must.Get(evidence.AddCosignSignature(t.Context(), from, subject, evidence.CosignSignature{Payload: payload, Signature: []byte(signature)}))(t)
		}
		must.Get(oras.ExtendedCopy(t.Context(), orasRepo(t, from), "1.0.0", orasRepo(t, to), "1.0.0", oras.DefaultExtendedCopyOptions))(t)
		got, err := evidence.ReadCosignSignatures(t.Context(), to, subject.Digest)
		if err != nil || len(got) != 2 || string(got[0].Signature)+string(got[1].Signature) != "firstsecond" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func orasRepo(t *testing.T, r *oci.Repo) *remote.Repository {
	t.Helper()
	repo := must.Get(remote.NewRepository(r.String()))(t)
	repo.PlainHTTP = strings.HasPrefix(r.String(), "127.")
	repo.SkipReferrersGC = true // one of the registries cannot delete
	return repo
}
