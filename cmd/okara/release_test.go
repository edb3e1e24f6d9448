// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// newRelease makes a release of dns, size bytes a package.
func newRelease(t testing.TB, platforms, size int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range platforms {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: "terraform-provider-dns", Method: zip.Store}
		h.SetMode(0o755)
		f := must.Get(w.CreateHeader(h))(t)
		plugin := make([]byte, size)
		rng := rand.NewChaCha8([32]byte{byte(i)})
		must.Get(rng.Read(plugin))(t)
		must.Get(f.Write(plugin))(t)
		must.Succeed(t, w.Close())
		system := "linux"
		if i > 0 {
			system = fmt.Sprintf("os%d", i)
		}
		name := filepath.Join(dir, "terraform-provider-dns_1.0.0_"+system+"_amd64.zip")
		must.Succeed(t, os.WriteFile(name, b.Bytes(), 0o600))
	}
	return dir
}
