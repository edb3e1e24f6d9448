// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// opened is an order with the folder of its tool.
type opened struct {
	Order
	dir *sandbox.Workdir
}

// newOrder returns an order whose program is a shell, with a storage folder around its
// scratch folder: <storage>/runs/<id>/1-1.
func newOrder(t *testing.T, mode string) *opened {
	t.Helper()
	storage := t.TempDir()
	okara, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := &opened{Order: Order{
		Program: "/bin/sh", Okara: okara,
		Scratch:   filepath.Join(storage, "runs", "abc", "1-1"),
		Isolation: Isolation{Mode: mode, Hide: []string{storage}},
	}}
	if o.dir, err = o.Open(); err != nil {
		t.Fatal(err)
	}
	return o
}

// tool returns the folder in which the tool starts.
func (o *opened) tool() string { return filepath.Join(o.Scratch, "work", sandbox.Tool) }

// mustStart runs a script in place of the tool.
func mustStart(t *testing.T, o *opened, out *bytes.Buffer, script string, args ...string) *Running {
	t.Helper()
	c := Command{Args: append([]string{"-c", script, "sh"}, args...), Dir: sandbox.Tool, Env: []string{"PATH=/usr/bin:/bin", "A=1"}}
	if out != nil {
		c.Stdout, c.Stderr = out, out
	}
	tool, err := o.Start(o.dir, c)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func mustRun(t *testing.T, o *opened, script string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := mustStart(t, o, &out, script, args...).Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

// newSandbox returns an executor with a sandbox.
func newSandbox(t *testing.T, change func(*LocalOptions)) *localTest {
	t.Helper()
	tofutest.Bubblewrap(t)
	return newLocal(t, func(o *LocalOptions) {
		o.Isolation = ModeSandbox
		if change != nil {
			change(o)
		}
	})
}

// mustHear runs scripts as the commands of one attempt, and returns their output.
func (l *localTest) mustHear(t *testing.T, s run.Spec, scripts ...string) string {
	t.Helper()
	b, err := json.Marshal(stubOrder{Tool: scripts[0], Then: scripts[1:], Hang: true})
	if err != nil {
		t.Fatal(err)
	}
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
	output, err := os.ReadFile(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

// TestSandboxSees checks what the code of a module can see: neither the storage folder,
// nor keys, nor another run, nor other processes. It has no capabilities, cannot get any,
// and can write only to the folder of the run.
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
	if parts[0] != "" {
		t.Errorf("files of the storage: %q", parts[0])
	}
	if parts[1] != "" {
		t.Errorf("it sees the process of this test: %q", parts[1])
	}
	if parts[2] != "" {
		t.Errorf("the sandbox has %q", parts[2])
	}
	uid := os.Geteuid()
	if uid == 0 {
		uid = nobody
	}
	const none = ":\t0000000000000000\n"
	want := strconv.Itoa(uid) + "\n/run/okara/tool\n" +
		"CapInh" + none + "CapPrm" + none + "CapEff" + none + "CapBnd" + none + "CapAmb" + none +
		"NoNewPrivs:\t1\n"
	if parts[3] != want {
		t.Errorf("got %q, want %q", parts[3], want)
	}
	if want := "A=1\nPATH=/usr/bin:/bin\nPWD=/run/okara/tool\n"; parts[4] != want {
		t.Errorf("environment %q, want %q", parts[4], want)
	}
}

// TestSandboxFiles opens a file without close-on-exec, as a server may have inherited it:
// the programs that it starts do not get it.
func TestSandboxFiles(t *testing.T) {
	l := newSandbox(t, nil)
	name := filepath.Join(t.TempDir(), "left-open")
	runtest.MustWrite(t, name, "secret")
	fd, err := unix.Open(name, unix.O_RDONLY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if got := l.mustHear(t, l.spec(t, stubOrder{}), "ls -l /proc/[0-9]*/fd | grep left-open; (cat <&"+strconv.Itoa(fd)+") 2>/dev/null; echo looked"); got != "looked\n" {
		t.Errorf("it has %q", got)
	}
}

// TestKeyring gives the thread that starts a tool a key that only its session can reach
// (keyrings(7)): the tool does not see it.
func TestKeyring(t *testing.T) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		t.Skipf("no keys on this machine: %v", err)
	}
	key, err := unix.AddKey("user", "key-of-the-server", []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
	if err == nil {
		err = unix.KeyctlSetperm(key, 0x3f000000) // for possessors of the key
	}
	if err != nil {
		t.Fatal(err)
	}
	look := exec.Command("cat", "/proc/keys")
	if b, err := look.Output(); err != nil || !strings.Contains(string(b), "key-of-the-server") {
		t.Fatalf("we do not see it ourselves: %q, %v", b, err)
	}
	if got := mustRun(t, newOrder(t, ModeNone), "cat /proc/keys; echo looked"); strings.Contains(got, "key-of-the-server") || !strings.HasSuffix(got, "looked\n") {
		t.Errorf("it sees %q", got)
	}
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
	b, err := json.Marshal(stubOrder{Tool: `i=0; while [ $i -lt 40 ]; do i=$((i+1)); sleep ` + mark + ` & done; echo ready; wait`})
	if err != nil {
		t.Fatal(err)
	}
	first.Variables = map[string]json.RawMessage{"stub": b}
	l.mustStart(t, first)
	mustSay(t, l.scratch(first.Ref), "ready")
	second.Ref.ID = "zbcdefghjk"
	if got := l.mustHear(t, second, `for i in 1 2 3 4 5 6 7 8 9 0; do for k in 1 2 3; do sleep 60 & done; done && echo all`); got != "all\n" {
		t.Errorf("%q", got)
	}
	if got := len(runtest.Running(t, mark)); got != 40 {
		t.Errorf("the first run has %d processes", got)
	}
	third := l.spec(t, stubOrder{})
	third.Ref.ID = "ybcdefghjk"
	if got := l.mustHear(t, third, `(i=0; while [ $i -lt 80 ]; do i=$((i+1)); sleep 60 & done; echo all) || echo refused`); !strings.HasSuffix(got, "refused\n") {
		t.Errorf("more processes than a run may have: %q", got)
	}
}

// TestToolLeavesNothing starts processes that outlive their parent in sessions of their
// own.
//
// Shows: platform-attacks 7
// Shows: instances 7
func TestToolLeavesNothing(t *testing.T) {
	o := newOrder(t, ModeNone)
	mark := "86423" + strconv.Itoa(os.Getpid()) // seconds; in the command line of remaining processes
	var out bytes.Buffer
	tool := mustStart(t, o, &out, `setsid sleep `+mark+` & (sleep `+mark+` &) ; echo started; exit 7`)
	err := tool.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
		t.Errorf("%v, want exit status 7", err)
	}
	if out.String() != "started\n" {
		t.Errorf("output %q", &out)
	}
	if left := runtest.Running(t, mark); len(left) > 1 { // a separate session hides from the group; see TestAlone
		t.Errorf("left: %v", left)
	} else if err := runtest.Kill(left); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(o.Scratch, toolFile)); !os.IsNotExist(err) {
		t.Errorf("%s: %v", toolFile, err)
	}
}

// TestInterrupt: the tool is interrupted once, and ends in order; if it does not end, it
// is killed.
func TestInterrupt(t *testing.T) {
	for _, mode := range []string{ModeNone} {
		t.Run(mode, func(t *testing.T) {
			o := newOrder(t, mode)
			const script = `trap 'echo interrupted; exit 3' INT; echo ready > ready; while :; do sleep 0.05; done`
			var out bytes.Buffer
			tool := mustStart(t, o, &out, script)
			runtest.MustAppear(t, filepath.Join(o.tool(), "ready"))
			if err := tool.Interrupt(); err != nil {
				t.Fatal(err)
			}
			err := tool.Wait()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 || out.String() != "interrupted\n" {
				t.Errorf("%v, output %q", err, &out)
			}

			tool = mustStart(t, o, nil, `trap '' INT TERM; echo ready > again; while :; do sleep 0.05; done`)
			runtest.MustAppear(t, filepath.Join(o.tool(), "again"))
			if err := errors.Join(tool.Interrupt(), tool.Kill()); err != nil {
				t.Fatal(err)
			}
			if err := tool.Wait(); err == nil {
				t.Error("a killed tool ended well")
			}
			if tool.group.Alive() {
				t.Error("still alive")
			}
		})
	}
}

// TestEnter: a working folder is not entered through a link that an earlier command made.
func TestEnter(t *testing.T) {
	base, elsewhere := t.TempDir(), t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(base, "tool"), 0o700), os.Symlink(elsewhere, filepath.Join(base, "tool", "module")), os.Symlink("tool", filepath.Join(base, "link"))); err != nil {
		t.Fatal(err)
	}
	was, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Chdir(was); err != nil {
			t.Error(err)
		}
	}()
	for _, dir := range []string{"tool/module", "link", "../x", "tool/../.."} {
		if err := enter(base, dir); err == nil {
			t.Errorf("%s: entered", dir)
		}
	}
	if err := enter(base, "tool"); err != nil {
		t.Error(err)
	}
}

// TestLimits limits the tool to files of 1 MiB.
func TestLimits(t *testing.T) {
	o := newOrder(t, ModeNone)
	o.Spec.Limits = run.Limits{Scratch: 1 << 20, Memory: 64 << 20}
	got := mustRun(t, o, `ulimit -f; ulimit -d; ulimit -c; head -c 2000000 /dev/zero > big; wc -c < big`)
	if want := "2048\n65536\n0\n"; !strings.HasPrefix(got, want) || !strings.HasSuffix(strings.TrimSpace(got), "1048576") {
		t.Errorf("got %q", got)
	}
}

// TestScratchFull interrupts a running tool that fills the disk.
//
// Shows: crash K13
func TestScratchFull(t *testing.T) {
	o := newOrder(t, ModeNone)
	o.Spec.Limits = run.Limits{Scratch: 1 << 20}
	tool := mustStart(t, o, nil, `trap 'exit 1' INT; for i in 1 2 3; do head -c 1000000 /dev/zero > $i; done; while :; do sleep 0.05; done`)
	if err := tool.Wait(); !errors.Is(err, sandbox.ErrFull) {
		t.Errorf("got %v", err)
	}
}

// TestScratchOverfull: a tool that writes on after the interrupt is killed, and no tool
// is interrupted twice.
func TestScratchOverfull(t *testing.T) {
	o := newOrder(t, ModeNone)
	o.Spec.Limits = run.Limits{Scratch: 1 << 20}
	tool := mustStart(t, o, nil, `trap 'echo >> asked' INT; i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > $((i%9)); sleep 0.05; done`)
	runtest.MustAppear(t, filepath.Join(o.tool(), "asked"))
	if err := tool.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if err := tool.Wait(); !errors.Is(err, sandbox.ErrFull) {
		t.Errorf("got %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(o.tool(), "asked")); err != nil || string(b) != "\n" {
		t.Errorf("interrupts: %q, %v", b, err)
	}
}

// TestOwnUser: the tool runs as the run's user, can reach only its folder, and no process
// of that user remains.
//
// Shows: platform 20
// Shows: instances 7
func TestOwnUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	const uid = 61234
	o := newOrder(t, ModeUser)
	o.Isolation.UID, o.Isolation.GID = uid, uid
	if err := o.dir.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.dir, err = o.Open(); err != nil {
		t.Fatal(err)
	}
	for dir := o.Scratch; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil {
			t.Fatal(err)
		} else if info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(dir, info.Mode().Perm()|0o111); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := os.Chmod(dir, info.Mode().Perm()); err != nil {
					t.Error(err)
				}
			}()
		}
	}
	if _, ok := reachable(o.tool(), uid); !ok {
		t.Fatal("not reachable")
	}
	// okara itself must be readable for that user too.
	o.Okara = mustCopy(t, o.Okara, filepath.Join(filepath.Dir(o.Scratch), "okara"))
	secret := filepath.Join(o.Isolation.Hide[0], "key")
	runtest.MustWrite(t, secret, "secret")
	runtest.MustWrite(t, filepath.Join(o.Scratch, "log"), "secret")
	runtest.MustWrite(t, filepath.Join(o.tool(), "main.tf"), "mine")
	got := mustRun(t, o, `id -u; id -G; cat main.tf; echo; grep Cap /proc/self/status | tr -d '\n'; grep NoNewPrivs /proc/self/status
		echo new > written; cat "$1" ../../log ../../process.json && echo "read a secret"; mv ../tool ../else && echo "moved its folder"
		setsid sleep 8642399 & exit 0`, secret)
	none := "0000000000000000"
	want := "61234\n61234\nmine\nCapInh:\t" + none + "CapPrm:\t" + none + "CapEff:\t" + none + "CapBnd:\t" + none + "CapAmb:\t" + none + "NoNewPrivs:\t1\n"
	if !strings.HasPrefix(got, want) || strings.Contains(got, "read a secret") || strings.Contains(got, "moved") {
		t.Errorf("got %q, want %q first", got, want)
	}
	if left := runtest.Running(t, "8642399"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func mustCopy(t *testing.T, from, to string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestWrap: the operator's command gets the tool with its arguments, and the name of the
// folder.
//
// Shows: platform 20
func TestWrap(t *testing.T) {
	o := newOrder(t, ModeWrap)
	o.Isolation.Wrap = []string{"/usr/bin/env", "WRAPPED=${scratch} ${program}"}
	if got, want := mustRun(t, o, `echo "$WRAPPED"`), string(o.dir.Base())+" "+Resolve("/bin/sh")+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCgroup puts the tool into a separate control group, by which all its processes are
// found and killed. Delegating controllers is up to the system: see TestCgroupLimits.
func TestCgroup(t *testing.T) {
	parent := filepath.Join(cgroupRoot(), "okara-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Skipf("no control group can be made here: %v", err)
	}
	defer func() {
		if err := os.Remove(parent); err != nil {
			t.Error(err)
		}
	}()
	dir, err := newCgroup(parent, "run-abc-1-1", 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}()
	o := newOrder(t, ModeNone)
	o.Isolation.Cgroup = dir
	tool := mustStart(t, o, nil, `setsid sleep 8642398 & : > ready; wait`)
	runtest.MustAppear(t, filepath.Join(o.tool(), "ready"))
	list, err := cgroupProcesses(dir)
	if err != nil || !slices.Contains(list, tool.group) {
		t.Errorf("%v, %v, want %v among them", list, err, tool.group)
	}
	if err := tool.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := tool.Wait(); err == nil {
		t.Error("a killed tool ended well")
	}
	runtest.Await(t, "the end of the group", func() bool {
		list, err := cgroupProcesses(dir)
		return err == nil && len(list) == 0
	})
	if left := runtest.Running(t, "8642398"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCgroupLimits checks the limits that are written to the files of a control group.
func TestCgroupLimits(t *testing.T) {
	parent := t.TempDir()
	runtest.MustWrite(t, filepath.Join(parent, "cgroup.controllers"), "cpu memory pids io\n")
	dir, err := newCgroup(parent, "run", 1<<20, 100, 1.5)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "1048576", "pids.max": "100", "cpu.max": "150000 100000"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
}
