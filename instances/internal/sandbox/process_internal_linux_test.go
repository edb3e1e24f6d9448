// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestFirstThreadEnds: alive although its first thread ended.
func TestFirstThreadEnds(t *testing.T) {
	p, wait := mustStartCommand(t, "leave-thread")
	runtest.Await(t, "the end of its first thread", func() bool {
		now := must.Get(readStat(p.PID))(t)
		return now.state == 'Z'
	})
	if !p.Alive() {
		t.Error("it is taken for dead")
	}
	all := must.Get(allProcesses())(t)
	if len(descendantsOf(all, func(q procInfo) bool { return q.Process == p })) != 1 {
		t.Error("it is not among the processes")
	}
	wait()
	if p.Alive() {
		t.Error("it lives on")
	}
}

// TestAliveWhileItExecs reads a process that executes a hundred times.
func TestAliveWhileItExecs(t *testing.T) {
	p, wait := mustStartCommand(t, "exec-again", "100")
	looks := 0
	for {
		now, err := readStat(p.PID)
		if err != nil {
			t.Fatalf("after %d looks: %v", looks, err)
		}
		if now.state == 'Z' && now.threads <= 1 {
			break // it waits to be reaped
		}
		if looks++; now.isDead() {
			t.Fatalf("after %d looks it was taken for dead: %+v", looks, now)
		}
	}
	t.Logf("%d looks", looks)
	wait()
}

// mustStartCommand starts this program; wait makes it end.
func mustStartCommand(t *testing.T, args ...string) (p Process, wait func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	in, ierr := cmd.StdinPipe()
	out, oerr := cmd.StdoutPipe()
	must.Succeed(t, errors.Join(ierr, oerr, cmd.Start()))
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // in case the test gave up before
	wait = func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		wait()
		t.Fatalf("%q, %v", line, err)
	}
	p, err := Identify(cmd.Process.Pid)
	if err != nil {
		wait()
		t.Fatal(err)
	}
	return p, wait
}

// leaveFirstThread ends the first thread, then the process.
func leaveFirstThread([]string) error {
	onFirst := make(chan bool)
	for {
		go func() {
			runtime.LockOSThread() // so that each goroutine has its own thread
			first := unix.Gettid() == os.Getpid()
			onFirst <- first
			if first {
				_, _ = os.Stdout.WriteString("ready\n")
				_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // to the runtime this is a call that does not return
			}
			select {}
		}()
		if <-onFirst {
			break
		}
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// execAgain executes itself n times, from a thread other than the first.
func execAgain(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if n == 100 {
		_, _ = os.Stdout.WriteString("ready\n")
	}
	if n == 0 {
		return nil
	}
	runtime.LockOSThread() // so that the goroutine below has another thread
	failed := make(chan error)
	go func() {
		failed <- syscall.Exec(os.Args[0], []string{os.Args[0], "exec-again", strconv.Itoa(n - 1)}, os.Environ())
	}()
	return <-failed
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1"))
	f.Add([]byte("7 ()"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parseStat(b); err == nil && p.state == 0 {
			t.Errorf("%q: %+v", b, p)
		}
	})
}
