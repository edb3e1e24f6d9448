// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/keyless"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
}

// TestSigstoreBundles checks cosign's bundles (testdata/README.md), modified too, with and without
// referrers.
func TestSigstoreBundles(t *testing.T) {
	key := must.Get(signing.ParseCosignPublicKey(fixture(t, "cosign.pub")))(t)
	_, stranger := depottest.NewCosignKey(t)
	manifest := fixture(t, "manifest.json")
	subject := oci.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(manifest), Size: int64(len(manifest))}
	other := must.Get(addr.ParseModule("prod/other/aws"))(t)
	for name, tt := range map[string]struct {
		file         string
		old, changed string // in the bundle
		key          *ecdsa.PublicKey
		signer       string        // of a certificate
		about        digest.Digest // "": the subject
		as           addr.Item     // zero: the item in the manifest
		version      string        // "": the version in the manifest
		result       string        // of the signature, "" for none
		demanded     error
	}{
		"cosign 3":                   {file: "sign", key: key, result: trust.Trusted},
		"cosign 2":                   {file: "sign-cosign2", key: key, result: trust.Trusted},
		"another key":                {file: "sign", key: stranger, result: trust.NotChecked, demanded: trust.ErrUntrusted},
		"no key":                     {file: "sign", result: trust.NotChecked, demanded: trust.ErrUntrusted},
		"an attestation":             {file: "attest", key: key, demanded: trust.ErrUntrusted},
		"of something else":          {file: "sign", key: key, about: digest.FromString("x"), result: trust.Invalid, demanded: trust.ErrUntrusted},
		"copied elsewhere":           {file: "sign", key: key, as: other.Item(), result: trust.Invalid, demanded: trust.ErrUntrusted},
		"as another kind":            {file: "sign", key: key, as: addr.Item{Kind: addr.KindTemplate, Template: "net/vpc"}, result: trust.Invalid, demanded: trust.ErrUntrusted},
		"another version":            {file: "sign", key: key, version: "9.0.0", result: trust.Invalid, demanded: trust.ErrUntrusted},
		"altered signature":          {file: "sign", old: `"sig":"MEYCIQCM`, changed: `"sig":"MEYCIQCN`, key: key, result: trust.NotChecked, demanded: trust.ErrUntrusted},
		"no signature":               {file: "sign", old: `"signatures":[{`, changed: `"signatures":[],"was":[{`, key: key, demanded: trust.ErrUntrusted},
		"a certificate":              {file: "sign", old: `"publicKey":{`, changed: `"certificate":{`, key: stranger, result: trust.NotChecked, demanded: trust.ErrUntrusted},
		"certified":                  {file: "keyless", signer: "https://github.com/acme/*/.github/workflows/release.yml@refs/tags/*", result: trust.Trusted},
		"by another":                 {file: "keyless", signer: "https://github.com/evil/*", result: trust.NotChecked, demanded: trust.ErrUntrusted},
		"of another":                 {file: "keyless", signer: "*/release.yml@*", about: digest.FromString("x"), result: trust.Invalid, demanded: trust.ErrUntrusted},
		"with a key, no certificate": {file: "sign", signer: "*@*", result: trust.NotChecked, demanded: trust.ErrUntrusted},
		"altered, certified":         {file: "keyless", old: `"sig":"M`, changed: `"sig":"N`, signer: "*@*", result: trust.Invalid, demanded: trust.ErrUntrusted},
		"no JSON":                    {file: "sign", old: `{`, changed: `[`, key: key, demanded: trust.ErrUntrusted},
	} {
		t.Run(name, func(t *testing.T) {
			ocitest.Each(t, func(t *testing.T, host string) {
				_, client := depottest.NewDepot(t, host, oci.Options{})
				r := depottest.MustRepo(t, client, depottest.ModuleRepo)
				about := subject
				if tt.about != "" {
					about.Digest = tt.about
				}
				image := bytes.ReplaceAll(fixture(t, tt.file+"-manifest.json"), []byte(subject.Digest), []byte(about.Digest))
				layer := fixture(t, tt.file+".json")
				blob := oci.BytesBlob("application/vnd.dev.sigstore.bundle.v0.3+json", bytes.Replace(layer, []byte(tt.old), []byte(tt.changed), 1))
				image = bytes.Replace(image, []byte(digest.FromBytes(layer)), []byte(blob.Digest), 1)
				image = bytes.Replace(image, sizeOf(len(layer)), sizeOf(int(blob.Size)), 1)
				for _, b := range []oci.Blob{oci.EmptyBlob(), blob} {
					must.Succeed(t, r.PushBlob(t.Context(), b))
				}
				m := oci.Manifest{Descriptor: oci.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(image), Size: int64(len(image))}, Bytes: image}
				must.Succeed(t, r.PutReferrer(t.Context(), m, about))
				s := trust.Subject{
					Repository: r, Item: cmp.Or(tt.as, depottest.VPC().Item()), Name: depottest.ModuleRepo, Version: depottest.MustVersion(t, cmp.Or(tt.version, "1.0.0")),
					Manifest: oci.Manifest{Descriptor: about, Bytes: manifest},
				}
				o := trust.Policy{Require: []string{trust.RequireCosign}}
				if tt.key != nil {
					o.Cosign = []*ecdsa.PublicKey{tt.key}
				}
				if tt.signer != "" {
					o.Keyless = must.Get(keyless.ReadTrust(filepath.Join("testdata", "trusted_root.json"), []string{tt.signer}, "https://token.actions.githubusercontent.com"))(t)
				}
				if _, err := trust.Verify(t.Context(), s, o); !errors.Is(err, tt.demanded) {
					t.Errorf("verify: %v, want %v", err, tt.demanded)
				}
				got, err := trust.Signatures(t.Context(), s, o)
				if err != nil || len(got) > 1 || (len(got) == 1) != (tt.result != "") {
					t.Fatalf("%+v, %v", got, err)
				}
				if len(got) == 1 && (got[0].Result != tt.result || got[0].Kind != "sigstore bundle") {
					t.Errorf("%+v, want %s", got[0], tt.result)
				}
				if strings.Contains(name, "a certificate") && !strings.Contains(got[0].Detail, "certificate") {
					t.Errorf("%+v does not say what it is", got[0])
				}
			})
		})
	}
}

func sizeOf(n int) []byte { return fmt.Appendf(nil, `"size":%d,`, n) }
