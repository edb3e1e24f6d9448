// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

func newSandbox(t *testing.T, change func(*LocalOptions)) *localTest {
	t.Helper()
	tofutest.Bubblewrap(t)
	return newLocal(t, func(o *LocalOptions) {
		o.Isolation = sandbox.ModeSandbox
		if change != nil {
			change(o)
		}
	})
}

// mustHear runs scripts as the commands of one attempt, and returns their output.
func (l *localTest) mustHear(t *testing.T, s run.Attempt, scripts ...string) string {
	t.Helper()
	b := must.Get(json.Marshal(stubOrder{Tool: scripts[0], Then: scripts[1:], Hang: true}))(t)
	s.Variables = map[string]json.RawMessage{"stub": b}
	h := l.mustStart(t, s)
	dir := l.scratch(s.Ref)
	runtest.Await(t, "the end of the commands", func() bool {
		_, err := os.Stat(filepath.Join(dir, "hangs"))
		if st, oerr := l.Observe(t.Context(), s, h); err != nil && (oerr != nil || st.State != run.Running) {
			output, rerr := os.ReadFile(filepath.Join(dir, "said"))
			t.Fatalf("%+v, %v; it said %q, %v", st, oerr, output, rerr)
		}
		return err == nil
	})
	output := must.Get(os.ReadFile(filepath.Join(dir, "said")))(t)
	return string(output)
}

// TestSandboxSees: no storage, keys, other runs or processes; no capabilities; only the run's
// folder.
//
// Shows: platform 20 | isolation | bwrap, a separate user for each concurrent run, a wrapper
// Shows: platform-attacks 7 | module code that looks for storage, keys and other runs, or leaves
// processes
// Shows: instances 7 | the code of a module sees neither keys nor other runs, and cannot lead the
// server to reveal them
func TestSandboxSees(t *testing.T) {
	l := newSandbox(t, func(o *LocalOptions) {
		o.Show = []string{filepath.Dir(o.Storage)}         // which contains the hidden storage
		if err := os.Chmod(o.Show[0], 0o755); err != nil { // so that the user of the sandbox could see it
			t.Fatal(err)
		}
	})
	s := l.spec(t, stubOrder{})
	for _, name := range []string{"blob", "keys/state.key", filepath.Join("runs", "other", "1-1", "work", "tool", "main.tf")} {
		runtest.MustWrite(t, filepath.Join(l.options.Storage, name), "secret")
	}
	got := l.mustHear(t, s, `
		find "`+l.options.Storage+`" -type f -print 2>/dev/null
		echo "--"; cat /proc/[0-9]*/cmdline | tr '\0' '\n' | grep -e '^-test[.]'
		echo "--"; ls /etc | grep -E '^(shadow|okara|ssh)$'
		ls /root /home /srv /opt /var/lib /sys 2>/dev/null
		echo "--"; id -u; pwd; grep Cap /proc/self/status; grep NoNewPrivs /proc/self/status
		for dir in / /usr /dev /run /run/okara /run/okara/given /etc /proc/sys/kernel; do (echo x > $dir/core_pattern) 2>/dev/null && echo "wrote in $dir"; done
		unshare -U true 2>/dev/null && echo "a namespace of users"
		for dir in . /tmp /var/tmp /dev/shm /run/okara/tool; do echo x > $dir/x || echo "nothing in $dir"; done
		ls -l /proc/self/fd /proc/1/fd | grep -F -e "`+l.options.Storage+`"
		echo "--"; env | sort`)
	parts := strings.Split(got, "--\n")
	if len(parts) != 5 {
		t.Fatalf("%q", got)
	}
	must.Equal(t, "files of the storage", parts[0], "")
	must.Equal(t, "it sees the process of this test", parts[1], "")
	must.Equal(t, "the sandbox", parts[2], "")
	uid := os.Geteuid()
	if uid == 0 {
		uid = nobody
	}
	const none = ":\t0000000000000000\n"
	want := strconv.Itoa(uid) + "\n/run/okara/tool\n" +
		"CapInh" + none + "CapPrm" + none + "CapEff" + none + "CapBnd" + none + "CapAmb" + none +
		"NoNewPrivs:\t1\n"
	must.Equal(t, "value", parts[3], want)
	must.Equal(t, "environment", parts[4], "A=1\nPATH=/usr/bin:/bin\nPWD=/run/okara/tool\n")
}

// TestSandboxFiles: an inherited file without close-on-exec reaches no program.
func TestSandboxFiles(t *testing.T) {
	l := newSandbox(t, nil)
	name := filepath.Join(t.TempDir(), "left-open")
	runtest.MustWrite(t, name, "secret")
	fd := must.Get(unix.Open(name, unix.O_RDONLY, 0))(t) // without O_CLOEXEC
	defer unix.Close(fd)
	must.Equal(t, "it", l.mustHear(t, l.spec(t, stubOrder{}), "ls -l /proc/[0-9]*/fd 2>/dev/null | grep left-open; (cat <&"+strconv.Itoa(fd)+") 2>/dev/null; echo looked"), "looked\n")
}

// TestSandboxBudget writes more than a run may into each writable folder, also at once:
// the kernel refuses it, and the run continues.
//
// Shows: crash K13 | scratch folder or log is full
// Shows: platform-attacks 9 | module code that fills the disk at once, or uses up all processes
func TestSandboxBudget(t *testing.T) {
	const limit = 32 << 20
	l := newSandbox(t, nil)
	s := l.spec(t, stubOrder{})
	s.Limits.Scratch = limit
	got := l.mustHear(t, s, `
		for dir in /run/okara/tool /tmp /var/tmp /dev/shm /run/okara / /run /dev; do
			for i in 1 2 3; do fallocate -l 24M $dir/$i 2>/dev/null || head -c 25165824 /dev/zero > $dir/$i; done
		done 2>/dev/null
		du -k -c -x /run/okara/tool /tmp /dev/shm 2>/dev/null | tail -n 1 | cut -f 1
		while read -r _ _ _ _ at how _; do case $how in rw*) stat -f -c "$at %T %b %S" "$at";; esac; done < /proc/self/mountinfo`)
	used, mounts, _ := strings.Cut(got, "\n")
	if kib, err := strconv.Atoi(used); err != nil || kib > limit>>10 || kib < limit>>11 {
		t.Errorf("%q KiB are used, %v", used, err)
	}
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		blocks, berr := strconv.Atoi(f[len(f)-2])
		size, serr := strconv.Atoi(f[len(f)-1])
		if err := errors.Join(berr, serr); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if device := strings.HasPrefix(f[0], "/dev/") && f[0] != "/dev/shm"; blocks*size > limit && !device && f[0] != "/run/okara/errored.tfstate" {
			t.Errorf("a mount that can be written has more than the limit: %s", line)
		}
	}
}

// TestSandboxLeavesNothing: a process that left its session ends with the command, and
// the next command does not find it.
//
// Shows: platform-attacks 7
func TestSandboxLeavesNothing(t *testing.T) {
	l := newSandbox(t, nil)
	mark := "86424" + strconv.Itoa(os.Getpid()) // seconds; in the command line of remaining processes
	if got := l.mustHear(t, l.spec(t, stubOrder{}), `setsid sleep `+mark+` & (sleep `+mark+` &) ; echo started`, `ls -d /proc/[0-9]* | wc -l`); !strings.HasPrefix(got, "started\n") {
		t.Errorf("%q", got)
	}
	if left := runtest.Running(t, mark); len(left) > 0 {
		t.Errorf("left: %v, %v", left, runtest.Kill(left))
	}
}

// TestRunsApart: a run at its process limit does not keep another run from starting
// processes, and no run can exceed the limit.
//
// Shows: platform-attacks 9
func TestRunsApart(t *testing.T) {
	l := newSandbox(t, func(o *LocalOptions) { o.Processes = 60 })
	first, second := l.spec(t, stubOrder{}), l.spec(t, stubOrder{})
	mark := "86426" + strconv.Itoa(os.Getpid())
	b := must.Get(json.Marshal(stubOrder{Tool: `i=0; while [ $i -lt 40 ]; do i=$((i+1)); sleep ` + mark + ` & done; echo ready; wait`}))(t)
	first.Variables = map[string]json.RawMessage{"stub": b}
	l.mustStart(t, first)
	mustSay(t, l.scratch(first.Ref), "ready")
	second.Ref.ID = "zbcdefghjk"
	must.Equal(t, "value", l.mustHear(t, second, `for i in 1 2 3 4 5 6 7 8 9 0; do for k in 1 2 3; do sleep 60 & done; done && echo all`), "all\n")
	if got := len(runtest.Running(t, mark)); got != 40 {
		t.Errorf("the first run has %d processes", got)
	}
	third := l.spec(t, stubOrder{})
	third.Ref.ID = "ybcdefghjk"
	if got := l.mustHear(t, third, `(i=0; while [ $i -lt 80 ]; do i=$((i+1)); sleep 60 & done; echo all) || echo refused`); !strings.HasSuffix(got, "refused\n") {
		t.Errorf("more processes than a run may have: %q", got)
	}
}

// TestCgroupLimits checks the limits that are written to the files of a control group.
func TestCgroupLimits(t *testing.T) {
	parent := t.TempDir()
	runtest.MustWrite(t, filepath.Join(parent, "cgroup.controllers"), "cpu memory pids io\n")
	dir := must.Get(newCgroup(parent, "run", 1<<20, 100, 1.5))(t)
	for name, want := range map[string]string{"memory.max": "1048576", "pids.max": "100", "cpu.max": "150000 100000"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
}

// TestReachable: a user reaches a folder if all above it let others in.
func TestReachable(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	name := filepath.Join(closed, "open", "any")
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.Chmod(filepath.Dir(name), 0o711)))
	const nobodyElse = 61234
	if at, ok := canReach(name, nobodyElse); ok {
		t.Errorf("%s is reachable", name)
	} else if at != closed && !strings.HasPrefix(dir, at) {
		t.Errorf("got %s, want %s or a folder above it", at, closed)
	}
	if _, ok := canReach(name, os.Geteuid()); !ok {
		t.Error("not even its owner reaches it")
	}
}
