// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestStateMemory uses a state of 64 MiB in a separate process: writing it, replacing it and
// reading it back may each take 256 MiB more than a command that does nothing.
func TestStateMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 64 MiB")
	}
	const size, limit = 64 << 20, 256 << 10 // bytes; KiB
	exe := must.Get(os.Executable())(t)
	program := filepath.Join(t.TempDir(), "okara") // TestMain runs okara by this name
	must.Succeed(t, os.Symlink(exe, program))
	reference := ocitest.New(t, ocitest.Quirks{}) + "/infra/state"
	okara := func(args ...string) int64 {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = []string{"HOME=" + t.TempDir()}
		return peakOf(t, cmd)
	}
	one, two := newFile(t, "one", largeState(1, size)), newFile(t, "two", largeState(2, size))
	back := filepath.Join(t.TempDir(), "back")
	base := okara("state", "list", reference)
	for _, args := range [][]string{
		{"state", "push", reference, one},
		{"state", "push", reference, two},
		{"state", "pull", reference, "-o", back},
	} {
		if more := okara(args...) - base; more > limit {
			t.Errorf("%s took %d MiB more than the %d MiB of a command that does nothing", args[1], more>>10, base>>10)
		} else {
			t.Logf("%s: %d MiB above %d MiB", args[1], more>>10, base>>10)
		}
	}
	want := must.Get(os.ReadFile(two))(t)
	got := must.Get(os.ReadFile(back))(t)
	if !bytes.Equal(got, want) {
		t.Error("the state came back with other bytes")
	}
}

// peakOf runs a command and returns the largest resident size of its process in KiB.
func peakOf(t testing.TB, cmd *exec.Cmd) (peak int64) {
	t.Helper()
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

// highWater returns the largest resident size of a process so far in KiB; false when it has
// ended. The kernel's accounting of ended children is useless here: it starts with the size
// of the parent.
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

// largeState resembles a real state: many resources of one type, with random ids.
func largeState(serial, size int) string {
	var b bytes.Buffer
	r := rand.New(rand.NewPCG(uint64(serial), 2))
	fmt.Fprintf(&b, `{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"a","outputs":{},"resources":[`, serial)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"mode":"managed","type":"aws_instance","name":"n%d","provider":"provider[\"registry.opentofu.org/hashicorp/aws\"]","instances":[{"schema_version":1,"attributes":{"id":"i-%016x","ami":"ami-123","key":"%016x%016x","tags":{"Name":"web-%d"}},"sensitive_attributes":[]}]}`,
			i, r.Uint64(), r.Uint64(), r.Uint64(), i)
	}
	b.WriteString(`],"check_results":null}`)
	return b.String()
}
