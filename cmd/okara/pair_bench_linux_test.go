// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
)

const (
	benchPlatforms = 12
	benchSize      = 58 << 20  // of a zip, approximately
	benchLimit     = 128 << 10 // KiB
	benchTimes     = 5         // pairs
)

// eachContent runs f with a release of zips whose plugin is stored, where h1 adds the least to
// the copy, and with one of plugins that compress to half their size.
func eachContent(b *testing.B, f func(b *testing.B, dist string)) {
	for name, method := range map[string]uint16{"stored": zip.Store, "deflated": zip.Deflate} {
		b.Run(name, func(b *testing.B) {
			dist := b.TempDir()
			var g errgroup.Group
			for i := range benchPlatforms {
				g.Go(func() error {
					return writePackage(filepath.Join(dist, fmt.Sprintf("terraform-provider-dns_1.0.0_os%d_amd64.zip", i)), method, byte(i))
				})
			}
			must.Succeed(b, g.Wait())
			f(b, dist)
		})
	}
}

// writePackage writes a zip of benchSize. To be compressible, a plugin repeats each block of
// random bytes once.
func writePackage(name string, method uint16, seed byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buffered := bufio.NewWriter(f)
	w := zip.NewWriter(buffered)
	h := &zip.FileHeader{Name: "terraform-provider-dns", Method: method}
	h.SetMode(0o755)
	plugin, err := w.CreateHeader(h)
	if err != nil {
		return err
	}
	rng, block := rand.NewChaCha8([32]byte{seed}), make([]byte, 16<<10)
	for range benchSize / len(block) {
		if _, err := rng.Read(block); err != nil {
			return err
		}
		if _, err := plugin.Write(block); err != nil {
			return err
		}
		if method == zip.Store {
			continue
		}
		if _, err := plugin.Write(block); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

// benchPairs are two command lines that do the same work on a registry.
type benchPairs struct{ okara, plain func(target string) []string }

// cost is what one run used.
type cost struct {
	wall, cpu time.Duration
	peak      int64 // KiB
}

// comparePairs runs both alternately several times, each time on a fresh registry, and reports
// the medians. The processor time is that of the client alone and hardly depends on the load
// of the machine.
func comparePairs(b *testing.B, p benchPairs) {
	var okara, plain []cost
	for b.Loop() {
		for n := range benchTimes {
			// Each goes first in half of the pairs.
			if n%2 == 0 {
				okara = append(okara, costOf(b, p.okara))
			}
			plain = append(plain, costOf(b, p.plain))
			if n%2 == 1 {
				okara = append(okara, costOf(b, p.okara))
			}
		}
	}
	peak := slices.MaxFunc(okara, func(x, y cost) int { return cmp.Compare(x.peak, y.peak) }).peak
	if peak > benchLimit {
		b.Errorf("okara took %d MiB, more than %d", peak>>10, benchLimit>>10)
	}
	var speed, cpu []float64
	for i := range okara {
		speed = append(speed, 100*plain[i].wall.Seconds()/okara[i].wall.Seconds())
		cpu = append(cpu, 100*okara[i].cpu.Seconds()/plain[i].cpu.Seconds())
	}
	b.ReportMetric(0, "ns/op") // of all pairs, meaningless
	b.ReportMetric(median(speed), "%-of-plain-speed")
	b.ReportMetric(median(cpu), "%-of-plain-cpu")
	b.ReportMetric(median(seconds(okara)), "s-okara")
	b.ReportMetric(median(seconds(plain)), "s-plain")
	b.ReportMetric(float64(peak>>10), "MiB-peak")
}

func seconds(runs []cost) (s []float64) {
	for _, r := range runs {
		s = append(s, r.wall.Seconds())
	}
	return s
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// costOf runs a command line on a separate registry, which is removed so that the next run
// finds the same amount of free memory and disk.
func costOf(b *testing.B, args func(target string) []string) cost {
	b.Helper()
	target := newDisk(b)
	defer target.remove()
	cmd := benchCommand(b, args(target.host)...)
	begin := time.Now()
	peak := peakOf(b, cmd)
	c := cost{wall: time.Since(begin), peak: peak, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	b.Logf("%s: %.2f s, %.2f s of processor, %d MiB", cmd.Args[0], c.wall.Seconds(), c.cpu.Seconds(), c.peak>>10)
	return c
}

func runOf(b *testing.B, args ...string) string {
	b.Helper()
	cmd := benchCommand(b, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		b.Fatalf("%v: %v\n%s", args, err, errs.String())
	}
	return out.String()
}

func benchCommand(b *testing.B, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.Context(), args[0], args[1:]...)
	cmd.Env = []string{"HOME=" + b.TempDir(), "TMPDIR=" + b.TempDir()}
	return cmd
}

// disk is the built-in registry in a separate directory.
type disk struct {
	host   string
	remove func()
}

func newDisk(b *testing.B) disk {
	b.Helper()
	dir := b.TempDir()
	registry := must.Get(embedded.New(dir, embedded.Options{}))(b)
	server := httptest.NewServer(registry)
	remove := func() {
		server.Close()
		_ = registry.Close()
		_ = os.RemoveAll(dir)
	}
	b.Cleanup(remove)
	return disk{strings.TrimPrefix(server.URL, "http://"), remove}
}
