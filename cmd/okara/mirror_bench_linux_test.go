// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/dirhash"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/seed-141914ff/okara/internal/embedded"
)

// BenchmarkMirror mirrors a provider of 12 platforms and about 700 MB from one
// registry on disk to another with okara, and after it copies the same blobs
// with oras and hashes the same zips, in turn. okara may take 128 MiB.
func BenchmarkMirror(b *testing.B) {
	const platforms, size, limit = 12, 58 << 20, 128 << 10 // limit in KiB
	const address = "registry.example.com/acme/dns"
	home, packed := b.TempDir(), b.TempDir()
	dist := newRelease(b, platforms, size)
	if err := os.MkdirAll(filepath.Join(packed, filepath.Dir(address)), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.Symlink(dist, filepath.Join(packed, address)); err != nil {
		b.Fatal(err)
	}
	okara := func(args ...string) int64 {
		cmd := exec.CommandContext(b.Context(), "okara", append(args, "--allow-unsigned")...)
		cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home}
		return peakOf(b, cmd)
	}
	origin := newDisk(b)
	okara("mirror", address, "--from", packed, "--registry", origin)

	b.SetBytes(platforms * size)
	var took, plain time.Duration
	var peak int64
	n := 0
	for b.Loop() {
		n++
		target := newDisk(b)
		begin := time.Now()
		peak = max(peak, okara("mirror", address, "--from", "oci://"+origin, "--registry", target))
		took += time.Since(begin)
		begin = time.Now()
		plainCopy(b, origin+"/mirror/"+address, newDisk(b)+"/mirror/"+address, dist)
		plain += time.Since(begin)
	}
	if peak > limit {
		b.Errorf("okara took %d MiB, more than %d", peak>>10, limit>>10)
	}
	b.ReportMetric(float64(peak>>10), "MiB-peak")
	b.ReportMetric(took.Seconds()/float64(n), "s-okara")
	b.ReportMetric(plain.Seconds()/float64(n), "s-plain")
	b.ReportMetric(100*plain.Seconds()/took.Seconds(), "%-of-plain-speed")
}

// newDisk starts the built-in registry on a directory of its own.
func newDisk(b *testing.B) (host string) {
	b.Helper()
	registry, err := embedded.New(b.TempDir(), embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(registry)
	b.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// plainCopy is what a general OCI client does, and then h1 of the same zips.
func plainCopy(b *testing.B, from, to, dist string) {
	b.Helper()
	src, err := remote.NewRepository(from)
	if err != nil {
		b.Fatal(err)
	}
	dst, err := remote.NewRepository(to)
	if err != nil {
		b.Fatal(err)
	}
	src.PlainHTTP, dst.PlainHTTP = true, true
	if _, err := oras.Copy(b.Context(), src, "1.0.0", dst, "1.0.0", oras.DefaultCopyOptions); err != nil {
		b.Fatal(err)
	}
	zips, err := filepath.Glob(filepath.Join(dist, "*.zip"))
	if err != nil || len(zips) == 0 {
		b.Fatal(fmt.Errorf("no zips: %w", err))
	}
	for _, zip := range zips {
		if _, err := dirhash.HashZip(zip, dirhash.Hash1); err != nil {
			b.Fatal(err)
		}
	}
}
