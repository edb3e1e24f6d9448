// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-141914ff/okara/internal/tofutest"
)

// newOrder is one whose program is a shell, with a storage folder around its
// scratch folder: <storage>/runs/<id>/1-1.
func newOrder(t *testing.T, mode string) *Order {
	t.Helper()
	storage := t.TempDir()
	okara, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := &Order{
		Program: "/bin/sh", Okara: okara,
		Scratch:   filepath.Join(storage, "runs", "abc", "1-1"),
		Isolation: Isolation{Mode: mode, Hide: []string{storage}},
	}
	if mode == Sandbox {
		o.Isolation.Bwrap = tofutest.Bubblewrap(t)
		if os.Geteuid() == 0 {
			o.Isolation.UID, o.Isolation.GID = nobody, nobody
		}
	}
	if err := os.MkdirAll(o.work(), 0o700); err != nil {
		t.Fatal(err)
	}
	return o
}

// mustStart runs a script as the tool does.
func mustStart(t *testing.T, o *Order, out *bytes.Buffer, script string, args ...string) *tool {
	t.Helper()
	c := toolCommand{Args: append([]string{"-c", script, "sh"}, args...), Dir: o.work(), Env: []string{"PATH=/usr/bin:/bin", "A=1"}}
	if out != nil {
		c.Stdout, c.Stderr = out, out
	}
	tool, err := o.startCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func mustRun(t *testing.T, o *Order, script string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := mustStart(t, o, &out, script, args...).Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

// TestSandboxSees lists what code of a module finds: neither the storage folder,
// nor keys, nor another run, nor any process but its own.
func TestSandboxSees(t *testing.T) {
	o := newOrder(t, Sandbox)
	storage := o.Isolation.Hide[0]
	for name, text := range map[string]string{
		"blob": "secret", "keys/state.key": "secret", "runs/abc/1-1/process.json": "secret", "runs/abc/1-1/log": "secret",
		filepath.Join("runs/other/1-1", workFolder, "main.tf"): "secret",
	} {
		mustWrite(t, filepath.Join(storage, name), text)
	}
	mustWrite(t, filepath.Join(o.work(), "main.tf"), "mine")
	got := mustRun(t, o, `
		find "$1" -path "*/$2" -prune -o -type f -print
		echo "--"; cat /proc/[0-9]*/cmdline | tr '\0' '\n' | grep -e '^-test[.]'
		echo "--"; ls /etc | grep -E '^(shadow|okara|ssh)$'
		ls /root /home /srv /opt /var/lib /sys 2>/dev/null
		echo "--"; id -u; cat main.tf; echo; echo new > written; grep CapEff /proc/self/status
		echo x > /usr/x || echo y > /proc/sys/kernel/core_pattern || echo "no writing"
		echo "--"; env | sort`, storage, filepath.Join(workFolder, tempFolder))
	parts := strings.Split(got, "--\n")
	if len(parts) != 5 {
		t.Fatalf("%q", got)
	}
	if want := filepath.Join(o.work(), "main.tf") + "\n"; parts[0] != want {
		t.Errorf("files of the storage: %q, want %q", parts[0], want)
	}
	if parts[1] != "" {
		t.Errorf("it sees the process of this test: %q", parts[1])
	}
	if parts[2] != "" {
		t.Errorf("the sandbox has %q", parts[2])
	}
	uid := strconv.Itoa(os.Geteuid())
	if os.Geteuid() == 0 {
		uid = strconv.Itoa(nobody)
	}
	for _, want := range []string{uid + "\nmine\n", "CapEff:\t0000000000000000\n", "no writing\n"} {
		if !strings.Contains(parts[3], want) {
			t.Errorf("got %q, want %q in it", parts[3], want)
		}
	}
	if want := "A=1\nPATH=/usr/bin:/bin\nPWD=" + o.work() + "\n"; parts[4] != want {
		t.Errorf("environment %q, want %q", parts[4], want)
	}
	if b, err := os.ReadFile(filepath.Join(o.work(), "written")); err != nil || string(b) != "new\n" {
		t.Errorf("what it wrote: %q, %v", b, err)
	}
}

// TestToolLeavesNothing starts processes that outlive their parent in sessions
// of their own, and files that are links.
func TestToolLeavesNothing(t *testing.T) {
	for _, mode := range []string{Sandbox, NoIsolation} {
		t.Run(mode, func(t *testing.T) {
			o := newOrder(t, mode)
			mark := "86423" + strconv.Itoa(os.Getpid()) // seconds; in the command line of what stays
			var out bytes.Buffer
			tool := mustStart(t, o, &out, `setsid sleep `+mark+` & (sleep `+mark+` &) ; echo started; exit 7`)
			err := tool.Wait()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
				t.Errorf("%v, want exit status 7", err)
			}
			if out.String() != "started\n" {
				t.Errorf("output %q", &out)
			}
			if left := running(t, mark); mode == Sandbox && len(left) > 0 {
				t.Errorf("left: %v", left)
			} else if len(left) > 1 { // a session of its own hides from the group; see TestAlone
				t.Errorf("left: %v", left)
			} else if err := kill(left); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(o.Scratch, toolFile)); !os.IsNotExist(err) {
				t.Errorf("%s: %v", toolFile, err)
			}
		})
	}
}

// running are the processes whose command line has the word.
func running(t *testing.T, word string) []process {
	t.Helper()
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	var list []process
	for _, p := range all {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
		if err == nil && slices.Contains(strings.Split(string(b), "\x00"), word) && !p.dead() {
			list = append(list, p.process)
		}
	}
	return list
}

// TestInterrupt: the tool gets it, once, and ends in order; what does not end is
// killed.
func TestInterrupt(t *testing.T) {
	for _, mode := range []string{Sandbox, NoIsolation} {
		t.Run(mode, func(t *testing.T) {
			o := newOrder(t, mode)
			const script = `trap 'echo interrupted; exit 3' INT; echo ready > ready; while :; do sleep 0.05; done`
			var out bytes.Buffer
			tool := mustStart(t, o, &out, script)
			mustAppear(t, filepath.Join(o.work(), "ready"))
			if err := tool.Interrupt(); err != nil {
				t.Fatal(err)
			}
			err := tool.Wait()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 || out.String() != "interrupted\n" {
				t.Errorf("%v, output %q", err, &out)
			}

			tool = mustStart(t, o, nil, `trap '' INT TERM; echo ready > again; while :; do sleep 0.05; done`)
			mustAppear(t, filepath.Join(o.work(), "again"))
			if err := errors.Join(tool.Interrupt(), tool.Kill()); err != nil {
				t.Fatal(err)
			}
			if err := tool.Wait(); err == nil {
				t.Error("a killed tool ended well")
			}
			if tool.group.alive() {
				t.Error("still alive")
			}
		})
	}
}

// TestLimits gives the tool files of 1 MiB at most.
func TestLimits(t *testing.T) {
	o := newOrder(t, NoIsolation)
	o.Spec.Limits = Limits{Scratch: 1 << 20, Memory: 64 << 20}
	got := mustRun(t, o, `ulimit -f; ulimit -d; ulimit -c; head -c 2000000 /dev/zero > big; wc -c < big`)
	if want := "2048\n65536\n0\n"; !strings.HasPrefix(got, want) || !strings.HasSuffix(strings.TrimSpace(got), "1048576") {
		t.Errorf("got %q", got)
	}
}

// TestScratchFull interrupts what fills the disk while it runs.
func TestScratchFull(t *testing.T) {
	o := newOrder(t, NoIsolation)
	o.Spec.Limits = Limits{Scratch: 1 << 20}
	tool := mustStart(t, o, nil, `trap 'exit 1' INT; for i in 1 2 3; do head -c 1000000 /dev/zero > $i; done; while :; do sleep 0.05; done`)
	if err := tool.Wait(); !errors.Is(err, errScratchFull) {
		t.Errorf("got %v", err)
	}
}

// TestScratchOverfull: what goes on writing when it was interrupted is killed, and
// no tool is interrupted twice.
func TestScratchOverfull(t *testing.T) {
	o := newOrder(t, NoIsolation)
	o.Spec.Limits = Limits{Scratch: 1 << 20}
	tool := mustStart(t, o, nil, `trap 'echo >> asked' INT; i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > $((i%9)); sleep 0.05; done`)
	mustAppear(t, filepath.Join(o.work(), "asked"))
	if err := tool.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if err := tool.Wait(); !errors.Is(err, errScratchFull) {
		t.Errorf("got %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(o.work(), "asked")); err != nil || string(b) != "\n" {
		t.Errorf("interrupts: %q, %v", b, err)
	}
}

// TestOwnUser: the tool has the user of its place, reaches its own folder and
// nothing else, and nothing of that user is left.
func TestOwnUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	const uid = 61234
	o := newOrder(t, OwnUser)
	o.Isolation.UID, o.Isolation.GID = uid, uid
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
	if _, ok := reachable(o.work(), uid); !ok {
		t.Fatal("not reachable")
	}
	// okara itself must be readable for that user too.
	o.Okara = mustCopy(t, o.Okara, filepath.Join(filepath.Dir(o.Scratch), "okara"))
	secret := filepath.Join(o.Isolation.Hide[0], "key")
	mustWrite(t, secret, "secret")
	mustWrite(t, filepath.Join(o.Scratch, "log"), "secret")
	mustWrite(t, filepath.Join(o.work(), "main.tf"), "mine")
	got := mustRun(t, o, `id -u; id -G; cat main.tf; echo; echo new > written; cat "$1" ../log ../process.json && echo "read a secret"
		setsid sleep 8642399 & exit 0`, secret)
	if want := "61234\n61234\nmine\n"; !strings.HasPrefix(got, want) || strings.Contains(got, "read a secret") {
		t.Errorf("got %q, want %q first", got, want)
	}
	if left := running(t, "8642399"); len(left) > 0 {
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

// TestWrap: the command of the operator gets the tool with its arguments, and
// knows the folders.
func TestWrap(t *testing.T) {
	o := newOrder(t, Wrapped)
	o.Isolation.Wrap = []string{"/usr/bin/env", "WRAPPED=${scratch} ${program}"}
	if got, want := mustRun(t, o, `echo "$WRAPPED"`), o.work()+" "+resolved("/bin/sh")+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCgroup puts the tool into a control group of its own, by which everything
// of it is found and ended. Controllers are the system's to delegate: see
// TestCgroupLimits.
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
	o := newOrder(t, NoIsolation)
	o.Isolation.Cgroup = dir
	tool := mustStart(t, o, nil, `setsid sleep 8642398 & : > ready; wait`)
	mustAppear(t, filepath.Join(o.work(), "ready"))
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
	await(t, "the end of the group", func() bool {
		list, err := cgroupProcesses(dir)
		return err == nil && len(list) == 0
	})
	if left := running(t, "8642398"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCgroupLimits writes what the kernel is told into files of that name.
func TestCgroupLimits(t *testing.T) {
	parent := t.TempDir()
	mustWrite(t, filepath.Join(parent, "cgroup.controllers"), "cpu memory pids io\n")
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

func mustWrite(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// mustAppear waits for a file.
func mustAppear(t *testing.T, name string) {
	t.Helper()
	await(t, name, func() bool {
		_, err := os.Stat(name)
		return err == nil
	})
}

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for !so() {
		if t.Context().Err() != nil {
			t.Fatalf("never: %s", what)
		}
		_ = syscall.Nanosleep(&syscall.Timespec{Nsec: 5e6}, nil)
	}
}
