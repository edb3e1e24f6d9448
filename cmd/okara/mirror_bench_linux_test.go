// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// BenchmarkMirror mirrors a provider with 12 platforms and about 700 MB from one registry on
// disk to another, compared with oras copying the same blobs followed by hashing the same
// zips. okara may use 128 MiB of memory.
//
// Shows: registries 28
func BenchmarkMirror(b *testing.B) {
	if testing.Short() {
		b.Skip("it moves gigabytes")
	}
	const address = "registry.example.com/acme/dns"
	eachContent(b, func(b *testing.B, dist string) {
		packed := b.TempDir()
		must.Succeed(b, os.MkdirAll(filepath.Join(packed, filepath.Dir(address)), 0o700))
		must.Succeed(b, os.Symlink(dist, filepath.Join(packed, address)))
		origin := newDisk(b)
		runOf(b, "okara", "mirror", address, "--from", packed, "--registry", origin.host, "--allow-unsigned")
		comparePairs(b, benchPairs{
			okara: func(target string) []string {
				return []string{"okara", "mirror", address, "--from", "oci://" + origin.host, "--registry", target, "--allow-unsigned"}
			},
			plain: func(target string) []string {
				return []string{"plain", "copy", origin.host + "/mirror/" + address, target + "/mirror/" + address, dist}
			},
		})
	})
}

// BenchmarkPublish publishes the same release from its folder, compared with oras pushing the
// zips followed by hashing them. okara may use 128 MiB of memory.
//
// Shows: registries 28
func BenchmarkPublish(b *testing.B) {
	if testing.Short() {
		b.Skip("it moves gigabytes")
	}
	eachContent(b, func(b *testing.B, dist string) {
		_, key, _ := strings.Cut(strings.TrimSpace(runOf(b, "okara", "keys", "new", "--ed25519", "--dir", b.TempDir())), "\t")
		comparePairs(b, benchPairs{
			okara: func(target string) []string {
				return []string{"okara", "publish", "provider", dist, "acme/dns", "1.0.0", "--registry", target, "--sign-key", key}
			},
			plain: func(target string) []string {
				return []string{"plain", "push", dist, target + "/providers/acme/dns"}
			},
		})
	})
}
