// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// The environment of a worker process, which runs this test binary again.
const (
	envWorker = "OKARA_TEST_WORKER" // number of cycles, "stop" and the request to stop at, "memory" and the job to measure, or "registry"
	envHost   = "OKARA_TEST_HOST"
	envDir    = "OKARA_TEST_DIR" // holds the lock file and the workers' logs
	envSlot   = "OKARA_TEST_SLOT"
)

// TestWorker is not a test but the main function of worker processes.
func TestWorker(t *testing.T) {
	job := os.Getenv(envWorker)
	if job == "" {
		t.Skip("runs in the processes that other tests start")
	}
	var err error
	switch kind, rest, _ := strings.Cut(job, " "); kind {
	case "stop":
		err = stoppedPut(os.Getenv(envHost), rest)
	case "memory":
		err = memoryWork(rest)
	case "registry":
		err = serveRegistry(os.Getenv(envHost), os.Getenv(envDir))
	default:
		err = work(job)
	}
	if err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

func worker(t testing.TB, host, dir, job string, slot int) *exec.Cmd {
	t.Helper()
	exe := must.Get(os.Executable())(t)
	cmd := exec.Command(exe, "-test.run=^TestWorker$")
	cmd.Env = append(os.Environ(), envWorker+"="+job, envHost+"="+host, envDir+"="+dir, fmt.Sprint(envSlot, "=", slot),
		"GOGC=100") // as outside of tests, whose own processes may collect garbage less often
	return cmd
}

// serveDir serves distribution on a directory, as in a deployment.
func serveDir(t testing.TB, deletes bool) string {
	t.Helper()
	h := must.Get(embedded.New(t.TempDir(), embedded.Options{DisableDelete: !deletes}))(t)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// work locks, adds a line to the state and unlocks until this slot has done
// its cycles. Its log contains the acknowledged lines.
func work(job string) error {
	cycles, err := strconv.Atoi(job)
	if err != nil {
		return err
	}
	dir, slot := os.Getenv(envDir), os.Getenv(envSlot)
	log, err := os.OpenFile(filepath.Join(dir, "log-"+slot), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	done, err := io.ReadAll(log)
	if err != nil {
		return err
	}
	r, err := oci.OpenRepo(os.Getenv(envHost)+"/infra/state", oci.Options{PlainHTTP: true})
	if err != nil {
		return err
	}
	s := statebackend.New(r, statebackend.Options{Tool: strconv.Itoa(os.Getpid())})
	for n := bytes.Count(done, []byte("\n")); n < cycles; {
		tagNames := fmt.Sprintf("%s-%d-%d\n", slot, os.Getpid(), n)
		switch err := addLine(s, dir, tagNames); {
		case err == nil:
			n++
			if _, err := log.WriteString(tagNames); err != nil {
				return err
			}
		case !isLocked(err):
			return err
		}
	}
	return nil
}

func isLocked(err error) bool {
	_, ok := errors.AsType[*statebackend.LockedError](err)
	return ok
}

// addLine is one cycle. The holders are counted by a lock of the operating
// system, which a killed process loses.
func addLine(s *statebackend.Store, dir, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // only to bound the test
	defer cancel()
	l, err := s.Lock(ctx, "prod", statebackend.LockInfo{Info: strconv.Itoa(os.Getpid())})
	if e, ok := errors.AsType[*statebackend.LockedError](err); ok {
		if pid, _ := strconv.Atoi(cmp.Or(e.Held.Info, e.Held.Who)); pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return errors.Join(err, ignoreMissing(s.ForceUnlock(ctx, "prod", e.Held.ID)))
		}
		time.Sleep(rand.N(40 * time.Millisecond)) // as -lock-timeout does
		return err
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "holder"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("two holders: %w", err)
	}
	state, _, err := l.Get(ctx)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	if _, err := l.Put(ctx, append(state, text...)); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return l.Unlock(ctx)
}

func ignoreMissing(err error) error {
	if errors.Is(err, oci.ErrNotFound) || isLocked(err) {
		return nil
	}
	return err
}

// Processes lock, write and unlock while others are killed at random. Holders never
// overlap, every acknowledged line is in the state, and all finish. The full
// size, 16 processes and 200 cycles, runs with OKARA_STRESS=full.
func TestKilledProcesses(t *testing.T) {
	processes, cycles, kills := 6, 5, 8
	if os.Getenv("OKARA_STRESS") == "full" {
		processes, cycles, kills = 16, 13, 60
	}
	for _, deletes := range []bool{true, false} {
		t.Run(fmt.Sprintf("delete=%t", deletes), func(t *testing.T) {
			t.Parallel()
			host, dir := serveDir(t, deletes), t.TempDir()
			var mu sync.Mutex // guards running
			running := map[int]*os.Process{}
			finished := make(chan struct{})
			var wg sync.WaitGroup
			for slot := range processes {
				wg.Go(func() { runSlot(t, host, dir, strconv.Itoa(cycles), slot, &mu, running) })
			}
			go func() { wg.Wait(); close(finished) }()
			killed := killAtRandom(&mu, running, kills, finished)
			<-finished
			checkLines(t, newStore(t, host, nil, statebackend.Options{}), dir, processes*cycles)
			t.Logf("%d processes, %d cycles, %d kills", processes, processes*cycles, killed)
		})
	}
}

// runSlot starts a worker, and another one each time it was killed.
func runSlot(t *testing.T, host, dir, job string, slot int, mu *sync.Mutex, running map[int]*os.Process) {
	for {
		cmd := worker(t, host, dir, job, slot)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		running[slot] = cmd.Process
		mu.Unlock()
		err := cmd.Wait()
		mu.Lock()
		delete(running, slot)
		mu.Unlock()
		if err == nil {
			return
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
			t.Errorf("worker %d: %v\n%s", slot, err, out.String())
			return
		}
	}
}

// killAtRandom kills workers until the budget is spent or all have finished.
func killAtRandom(mu *sync.Mutex, running map[int]*os.Process, kills int, finished <-chan struct{}) int {
	for killed := 0; killed < kills; {
		select {
		case <-finished:
			return killed
		case <-time.After(rand.N(600 * time.Millisecond)): // kill at a random time
		}
		mu.Lock()
		for _, p := range running { // in random order
			if p.Kill() == nil {
				killed++
			}
			break
		}
		mu.Unlock()
	}
	return kills
}

// checkLines compares the state with the lines that were acknowledged to the workers.
func checkLines(t *testing.T, s *statebackend.Store, dir string, want int) {
	t.Helper()
	state, _ := must.GetBoth(s.Get(t.Context(), "prod"))(t)
	logs := must.Get(filepath.Glob(filepath.Join(dir, "log-*")))(t)
	acked := 0
	for _, name := range logs {
		b := must.Get(os.ReadFile(name))(t)
		for tagNames := range strings.Lines(string(b)) {
			acked++
			if !bytes.Contains(state, []byte(tagNames)) {
				t.Errorf("acknowledged line %q is missing", tagNames)
			}
		}
	}
	if acked != want {
		t.Errorf("%d acknowledged lines, want %d", acked, want)
	}
}

// stoppedPut writes a state and stops itself before one request of the Put.
func stoppedPut(host, at string) error {
	n, err := strconv.Atoi(at)
	if err != nil {
		return err
	}
	f := &ocitest.Fault{Match: func(*http.Request) bool { return false }, Nth: n, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if err := stop(); err != nil {
			return nil, err
		}
		return next.RoundTrip(r)
	}}
	repo, err := oci.OpenRepo(host+"/infra/state", oci.Options{PlainHTTP: true, Transport: f})
	if err != nil {
		return err
	}
	ctx := context.Background()
	l, err := statebackend.New(repo, statebackend.Options{}).Lock(ctx, "prod", statebackend.LockInfo{ID: "stopped"})
	if err != nil {
		return err
	}
	if _, _, err := l.Get(ctx); err != nil {
		return err
	}
	f.Match = nil
	v, err := l.Put(ctx, []byte("stopped"))
	fmt.Printf("RESULT: version %d lost %t: %v\n", v.N, errors.Is(err, statebackend.ErrLockLost), err)
	f.Match = func(*http.Request) bool { return false }
	return l.Unlock(ctx)
}

// stop stops this process before it returns: the signal goes to the calling
// thread, which handles it when it leaves the system call.
func stop() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP)); errno != 0 {
		return errno
	}
	return nil
}

// A holder is stopped in the middle of a Put, its lock ended by force, and another
// client writes; then the holder continues. Its Put fails and names the version
// that keeps its bytes; the successor's state stays current.
func TestStoppedInPut(t *testing.T) {
	for _, deletes := range []bool{true, false} {
		for at, request := range []string{1: "POST blob", 2: "PUT version", 3: "GET tags"} {
			if request == "" {
				continue
			}
			t.Run(fmt.Sprintf("delete=%t/%s", deletes, request), func(t *testing.T) {
				host := serveDir(t, deletes)
				s := newStore(t, host, nil, statebackend.Options{})
				l := mustLock(t, s, "prod", "first")
				mustPut(t, l, []byte("first"))
				mustUnlock(t, l)

				cmd := worker(t, host, t.TempDir(), fmt.Sprint("stop ", at), 0)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				must.Succeed(t, cmd.Start())
				ended := false
				t.Cleanup(func() { // a stopped process would stay forever
					if !ended {
						_ = cmd.Process.Kill()
						t.Logf("the stopped process: %v\n%s", cmd.Wait(), out.String())
					}
				})
				mustStop(t, cmd.Process.Pid)
				if err := s.ForceUnlock(t.Context(), "prod", "stopped"); err != nil {
					t.Error(err)
				}
				l = mustLock(t, s, "prod", "successor")
				mustPut(t, l, []byte("successor"))
				must.Succeed(t, cmd.Process.Signal(syscall.SIGCONT))
				err := cmd.Wait()
				ended = true
				before := strings.Contains(out.String(), "version 2 lost false: <nil>") // it was there before the end of the lock, and is in the copy
				refused := strings.Contains(out.String(), "lost true") && strings.Contains(out.String(), "saved as version 2, which is not current:")
				if err != nil || !before && !refused {
					t.Errorf("the stopped process: %v\n%s", err, out.String())
				}
				mustUnlock(t, l)
				if got := mustGet(t, s, "prod"); got != "successor" {
					t.Errorf("state: %q", got)
				}
				if kept, _, err := s.GetVersion(t.Context(), "prod", 2); err != nil || string(kept) != "stopped" {
					t.Errorf("version 2: %q, %v", kept, err)
				}
			})
		}
	}
}

// mustStop waits until a process has stopped itself.
func mustStop(t *testing.T, pid int) {
	t.Helper()
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) { // interrupted by a signal of Go's runtime
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("the process did not stop: %v, status %#x", err, status)
		}
		return
	}
}
