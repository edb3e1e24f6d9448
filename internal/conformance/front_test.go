// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"archive/zip"
	"bytes"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// TestFrontEnd installs a module and a provider from each registry, with both tools.
func TestFrontEnd(t *testing.T) {
	key := sync.OnceValues(func() (*signing.Key, error) {
		return signing.NewKey(signing.KeyOptions{Name: "conformance", ECC: true})
	})
	each(t, func(t *testing.T, c *oci.Client) {
		layout := addr.Layout{Prefix: "conformance/front"}
		d := depot.New(depot.Options{Client: c, Layout: layout})
		front := must.Get(server.New(server.Options{
			Options: registry.Options{Client: c, Layout: layout},
			Access:  access.Policy{Anonymous: rights.AnonymousRead()}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}},
		}))(t)
		web := httptest.NewServer(front)
		t.Cleanup(web.Close)
		target := tofutest.Target{Base: web.URL}
		tofutest.RunModules(t, target, publishModule(t, d))
		signer := must.Get(key())(t)
		tofutest.RunProviders(t, target, "/v1/providers/", publishProvider(t, d, signer))
	})
}

func publishModule(t *testing.T, d *depot.Depot) tofutest.Module {
	t.Helper()
	const main = "output \"x\" {\n  value = 1\n}\n"
	address := must.Get(addr.ParseModule("net/vpc/aws"))(t)
	tree := fstest.MapFS{"main.tf": {Data: []byte(main)}}
	for _, text := range []string{"1.0.0", "1.10.0", "1.2.0"} {
		m := addr.ModuleVersion{Module: address, Version: mustVersion(t, text)}
		must.Get(d.PublishModule(t.Context(), tree, m, depot.ModuleOptions{}))(t)
	}
	return tofutest.Module{
		Address: "net/vpc/aws", Versions: []string{"1.10.0", "1.2.0", "1.0.0"}, Files: map[string]string{"main.tf": main},
	}
}

func publishProvider(t *testing.T, d *depot.Depot, key *signing.Key) tofutest.Provider {
	t.Helper()
	zips, err := publishProviderAs(t, d, key, "1.2.3")
	must.Succeed(t, err)
	return tofutest.Provider{
		Host: "okara.test", Address: "acme/dns", Version: "1.2.3", Protocols: []string{"6.0"}, Zips: zips,
	}
}

func publishProviderAs(t *testing.T, d *depot.Depot, key *signing.Key, version string) (zips map[string][]byte, err error) {
	t.Helper()
	address := must.Get(addr.ParseProvider("acme/dns"))(t)
	dist := fstest.MapFS{}
	zips = map[string][]byte{}
	for _, platform := range []string{"linux_amd64", "darwin_arm64"} {
		zips[platform] = zipOf(t, "terraform-provider-dns_v"+version, "binary for "+platform)
		dist["terraform-provider-dns_"+version+"_"+platform+".zip"] = &fstest.MapFile{Data: zips[platform]}
	}
	dist["terraform-provider-dns_"+version+"_manifest.json"] = &fstest.MapFile{
		Data: []byte(`{"version":1,"metadata":{"protocol_versions":["6.0"]}}`),
	}
	_, err = d.PublishProvider(t.Context(), dist, address, mustVersion(t, version), depot.ProviderOptions{SignKey: key})
	return zips, err
}

func mustVersion(t *testing.T, s string) addr.Version {
	t.Helper()
	return must.Get(addr.ParseVersion(s))(t)
}

func zipOf(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	h := &zip.FileHeader{Name: name, Method: zip.Deflate}
	h.SetMode(0o755)
	f := must.Get(w.CreateHeader(h))(t)
	must.Get(f.Write([]byte(content)))(t)
	must.Succeed(t, w.Close())
	return b.Bytes()
}
