// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
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
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
)

// opened is an order with the folder of its tool.
type opened struct {
	Order
	dir *Workdir
}

// newOrder is an order of a shell, in <storage>/runs/<id>/1-1.
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
func (o *opened) tool() string { return filepath.Join(o.Scratch, "work", Tool) }

// mustStart runs a script in place of the tool.
func mustStart(t *testing.T, o *opened, out *bytes.Buffer, script string, args ...string) *Running {
	t.Helper()
	c := Command{Args: append([]string{"-c", script, "sh"}, args...), Dir: Tool, Env: []string{"PATH=/usr/bin:/bin", "A=1"}}
	if out != nil {
		c.Stdout, c.Stderr = out, out
	}
	return must.Get(o.Start(o.dir, c))(t)
}

func mustRun(t *testing.T, o *opened, script string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := mustStart(t, o, &out, script, args...).Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

// TestKeyring: the tool does not see the starter's key (keyrings(7)).
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

// TestInterrupt: interrupted once, then killed.
func TestInterrupt(t *testing.T) {
	for _, mode := range []string{ModeNone} {
		t.Run(mode, func(t *testing.T) {
			o := newOrder(t, mode)
			const script = `trap 'echo interrupted; exit 3' INT; echo ready > ready; while :; do sleep 0.05; done`
			var out bytes.Buffer
			tool := mustStart(t, o, &out, script)
			runtest.MustAppear(t, filepath.Join(o.tool(), "ready"))
			must.Succeed(t, tool.Interrupt())
			err := tool.Wait()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 || out.String() != "interrupted\n" {
				t.Errorf("%v, output %q", err, &out)
			}

			tool = mustStart(t, o, nil, `trap '' INT TERM; echo ready > again; while :; do sleep 0.05; done`)
			runtest.MustAppear(t, filepath.Join(o.tool(), "again"))
			must.Succeed(t, errors.Join(tool.Interrupt(), tool.Kill()))
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
	must.Succeed(t, errors.Join(os.Mkdir(filepath.Join(base, "tool"), 0o700), os.Symlink(elsewhere, filepath.Join(base, "tool", "module")), os.Symlink("tool", filepath.Join(base, "link"))))
	was := must.Get(os.Getwd())(t)
	defer func() {
		if err := os.Chdir(was); err != nil {
			t.Error(err)
		}
	}()
	for _, dir := range []string{"tool/module", "link", "../x", "tool/../.."} {
		if err := enterFolder(base, dir); err == nil {
			t.Errorf("%s: entered", dir)
		}
	}
	if err := enterFolder(base, "tool"); err != nil {
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
	if err := tool.Wait(); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}

// TestScratchOverfull: a tool that writes on is killed.
func TestScratchOverfull(t *testing.T) {
	o := newOrder(t, ModeNone)
	o.Spec.Limits = run.Limits{Scratch: 1 << 20}
	tool := mustStart(t, o, nil, `trap 'echo >> asked' INT; i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > $((i%9)); sleep 0.05; done`)
	runtest.MustAppear(t, filepath.Join(o.tool(), "asked"))
	must.Succeed(t, tool.Interrupt())
	if err := tool.Wait(); !errors.Is(err, errFull) {
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
	must.Succeed(t, o.dir.root.Close())
	var err error
	if o.dir, err = o.Open(); err != nil {
		t.Fatal(err)
	}
	for dir := o.Scratch; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil {
			t.Fatal(err)
		} else if info.Mode().Perm()&0o001 == 0 {
			must.Succeed(t, os.Chmod(dir, info.Mode().Perm()|0o111))
			defer func() {
				if err := os.Chmod(dir, info.Mode().Perm()); err != nil {
					t.Error(err)
				}
			}()
		}
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
	b := must.Get(os.ReadFile(from))(t)
	must.Succeed(t, os.WriteFile(to, b, 0o755))
	return to
}

// TestWrap: the operator's command gets the tool with its arguments, and the name of the
// folder.
//
// Shows: platform 20
func TestWrap(t *testing.T) {
	o := newOrder(t, ModeWrap)
	o.Isolation.Wrap = []string{"/usr/bin/env", "WRAPPED=${scratch} ${program}"}
	must.Equal(t, "value", mustRun(t, o, `echo "$WRAPPED"`), string(o.dir.seenPath())+" "+Resolve("/bin/sh")+"\n")
}

// TestCgroup: a group by which all processes are found and killed.
func TestCgroup(t *testing.T) {
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		root = filepath.Join(root, "unified")
	}
	parent := filepath.Join(root, "okara-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Skipf("no control group can be made here: %v", err)
	}
	defer func() {
		if err := os.Remove(parent); err != nil {
			t.Error(err)
		}
	}()
	dir := filepath.Join(parent, "run-abc-1-1")
	must.Succeed(t, os.Mkdir(dir, 0o755))
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
	must.Succeed(t, tool.Kill())
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
