// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"archive/zip"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
)

const (
	benchPlatforms = 12
	benchSize      = 4 << 20
)

// BenchmarkPublishProvider publishes 12 incompressible packages to the built-in
// registry on disk: hashes, h1, upload. Allocations include the registry.
func BenchmarkPublishProvider(b *testing.B) {
	dir := b.TempDir()
	for i := range benchPlatforms {
		writeBenchZip(b, filepath.Join(dir, fmt.Sprintf("terraform-provider-dns_1.0.0_os%d_amd64.zip", i)), byte(i))
	}
	key := must.Get(signing.NewKey(signing.KeyOptions{Name: "bench", ECC: true}))(b)
	v := must.Get(addr.ParseVersion("1.0.0"))(b)
	registry := must.Get(embedded.New(b.TempDir(), embedded.Options{}))(b)
	server := httptest.NewServer(registry)
	b.Cleanup(server.Close)
	client := must.Get(oci.New(strings.TrimPrefix(server.URL, "http://"), oci.Options{}))(b)
	d := depot.New(depot.Options{Client: client})
	b.SetBytes(benchPlatforms * benchSize)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		p := addr.Provider{Namespace: fmt.Sprintf("acme%d", n), Type: "dns"}
		must.Get(d.PublishProvider(b.Context(), os.DirFS(dir), p, v, depot.ProviderOptions{SignKey: key, Now: time.Now()}))(b)
	}
}

func writeBenchZip(b *testing.B, file string, seed byte) {
	b.Helper()
	f := must.Get(os.Create(file))(b)
	w := zip.NewWriter(f)
	h := &zip.FileHeader{Name: "terraform-provider-dns", Method: zip.Store}
	h.SetMode(0o755)
	out := must.Get(w.CreateHeader(h))(b)
	plugin := make([]byte, benchSize)
	rng := rand.NewChaCha8([32]byte{seed})
	must.Get(rng.Read(plugin))(b)
	must.Get(out.Write(plugin))(b)
	must.Succeed(b, w.Close())
	must.Succeed(b, f.Close())
}
