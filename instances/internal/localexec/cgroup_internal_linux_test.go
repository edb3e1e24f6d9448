// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestCleanUpCgroups removes groups of attempts that do not run, with their tools' own, and no
// others.
func TestCleanUpCgroups(t *testing.T) {
	l := newLocal(t, nil)
	l.cgroup = filepath.Join(cgroupRoot(), "okara-sweep-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(l.cgroup, 0o755); err != nil {
		t.Skipf("no control group can be made here: %v", err)
	}
	group := func(parts ...string) string {
		dir := filepath.Join(append([]string{l.cgroup}, parts...)...)
		must.Succeed(t, os.Mkdir(dir, 0o755))
		return dir
	}
	group("run-abc-1-1") // its folder is gone
	group("run-abc-1-2")
	group("run-abc-1-2", "made-by-the-tool")
	busy, begun, foreign := group("run-abc-1-3"), group("run-abc-1-4"), group(serverCgroup)
	defer func() {
		for _, dir := range []string{busy, begun, foreign, l.cgroup} {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		}
	}()
	sleeper := exec.Command("sleep", "1h")
	must.Succeed(t, sleeper.Start())
	defer func() { _, _ = sleeper.Process.Kill(), sleeper.Wait() }()
	must.Succeed(t, joinCgroup(busy, sleeper.Process.Pid))
	dead := marker{parsedHandle: parsedHandle{machine: l.here, Process: sandbox.Process{PID: 1 << 30, Start: 1}}, Cgroup: group("run-abc-2-1")}
	alive := must.Get(sandbox.Identify(sleeper.Process.Pid))(t)
	for name, m := range map[string]marker{"2-1": dead, "1-4": {parsedHandle: parsedHandle{machine: l.here, Process: alive}, Cgroup: begun}} {
		dir := filepath.Join(l.runsFolder(), "abc", name)
		runtest.MustWrite(t, filepath.Join(dir, "work", "file"), "")
		must.Succeed(t, writeMarker(dir, m))
	}
	must.Succeed(t, cleanUpCgroups(t.Context(), l.Local))
	left, err := filepath.Glob(filepath.Join(l.cgroup, "*-*"))
	if want := []string{busy, begun}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %v, %v, want %v", left, err, want)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}
