// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestProviderMemory publishes a release of 192 MiB to a registry on disk and mirrors it to
// another: each may take 128 MiB.
//
// Shows: registries 28
func TestProviderMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves gigabytes")
	}
	const limit = 128 << 10 // KiB
	packed, address := t.TempDir(), "registry.example.com/acme/dns"
	must.Succeed(t, os.MkdirAll(filepath.Join(packed, filepath.Dir(address)), 0o700))
	must.Succeed(t, os.Symlink(newRelease(t, 6, 32<<20), filepath.Join(packed, address)))
	_, key, _ := strings.Cut(strings.TrimSpace(mustOkara(t, "keys", "new", "--ed25519", "--dir", t.TempDir())), "\t")
	first, second := newDisk(t), newDisk(t)
	for _, args := range [][]string{
		{"publish", "provider", filepath.Join(packed, address), "acme/dns", "1.0.0", "--registry", first, "--sign-key", key},
		{"mirror", address, "--registry", first, "--from", packed, "--allow-unsigned"},
		{"mirror", address, "--registry", second, "--from", "oci://" + first, "--allow-unsigned"},
	} {
		peak := peakOf(t, args...)
		if t.Logf("%s: %d MiB", args[0], peak>>10); peak > limit {
			t.Errorf("%v took %d MiB", args, peak>>10)
		}
	}
}

// newDisk returns the address of a built-in registry on disk.
func newDisk(t *testing.T) string {
	t.Helper()
	registry := must.Get(embedded.New(t.TempDir(), embedded.Options{}))(t)
	server := httptest.NewServer(registry)
	t.Cleanup(func() {
		server.Close()
		must.Succeed(t, registry.Close())
	})
	return server.Listener.Addr().String()
}

// peakOf runs okara in a process and returns its largest resident size in KiB.
func peakOf(t *testing.T, args ...string) (peak int64) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "okara") // TestMain runs okara by this name
	must.Succeed(t, os.Symlink(must.Get(os.Executable())(t), program))
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Succeed(t, cmd.Start())
	for {
		mark, ok := highWater(cmd.Process.Pid)
		if !ok {
			break
		}
		peak = mark
		time.Sleep(time.Millisecond) // the high-water mark only grows
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out.String())
	}
	return peak
}

// highWater returns a process's largest size in KiB; a child's accounting starts with its parent's.
func highWater(pid int) (kib int64, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	_, rest, ok := strings.Cut(string(b), "VmHWM:")
	if !ok {
		return 0, false
	}
	_, err = fmt.Sscan(rest, &kib)
	return kib, err == nil
}
