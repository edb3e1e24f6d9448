// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-141914ff/okara/internal/files"
)

// toolFile in a scratch folder identifies the process of [Running], so that the rest
// of a run can be ended after its child died.
const toolFile = "tool.json"

// Running is a running command of the tool, with all processes that it started.
type Running struct {
	o     *Order
	dir   *Workdir
	alone bool
	cmd   *exec.Cmd
	// group leads the tool's process group. In a sandbox it is the first process of the namespace,
	// which ignores the interrupt meant for the tool, and whose death ends all others.
	group   Process
	copying sync.WaitGroup
	pipes   []*os.File // our ends; closed when nothing can write any more

	interrupted sync.Once

	watching sync.WaitGroup
	ended    chan struct{} // closed when the tool has ended

	mu  sync.Mutex // guards err
	err error      // from copying, or why the tool was ended
}

// Start starts a command of the tool with the order's isolation. The caller must wait for
// it. On other systems than Linux the error is errors.ErrUnsupported.
func (o *Order) Start(dir *Workdir, c Command) (*Running, error) {
	t := &Running{o: o, dir: dir, alone: c.Alone}
	if err := t.start(c); err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.Program, err)
	}
	return t, nil
}

func (t *Running) start(c Command) (err error) {
	if err := t.dir.beginTool(); err != nil {
		return err
	}
	var info, informs *os.File
	line := t.o.commandLine(t.dir, c, 3) // the first of ExtraFiles
	t.cmd = exec.Command(line[0], line[1:]...)
	t.cmd.Dir = "/"
	t.cmd.Env = c.Env
	attr := &syscall.SysProcAttr{Setpgid: true}
	if uid := t.o.Isolation.UID; uid > 0 && t.o.Isolation.Mode == ModeSandbox {
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(t.o.Isolation.GID)}
	}
	t.cmd.SysProcAttr = attr
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the tool has its own copies
		}
		if err != nil {
			t.closePipes()
		}
	}()
	if t.o.Isolation.Mode == ModeSandbox {
		if info, informs, err = os.Pipe(); err != nil {
			return err
		}
		defer info.Close()
		t.cmd.ExtraFiles = []*os.File{informs}
		theirs = append(theirs, informs)
	}
	if t.o.Isolation.Cgroup != "" {
		dir, err := os.Open(t.o.Isolation.Cgroup)
		if err != nil {
			return err
		}
		theirs = append(theirs, dir)
		attr.UseCgroupFD = true
		attr.CgroupFD = int(dir.Fd())
	}
	outputs := []io.Writer{c.Stdout, c.Stderr}
	files := make([]*os.File, len(outputs))
	for i, out := range outputs {
		if out == nil {
			continue
		}
		if i > 0 && sameWriter(out, outputs[0]) {
			files[i] = files[0]
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		t.pipes = append(t.pipes, r)
		theirs = append(theirs, w)
		files[i] = w
		// The tool holds the reading end too. Otherwise its first line after our death
		// would kill it by SIGPIPE, before it saves the state that it could not store.
		held, err := openAgain(r)
		if err != nil {
			return err
		}
		theirs = append(theirs, held)
		t.cmd.ExtraFiles = append(t.cmd.ExtraFiles, held)
		_, _ = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, pipeSize) // room for output that is not read any more
		defer t.copy(out, r)
	}
	if files[0] != nil {
		t.cmd.Stdout = files[0]
	}
	if files[1] != nil {
		t.cmd.Stderr = files[1]
	}
	// The tool inherits no descriptor of the server.
	if err := os.NewSyscallError("close_range", unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)); err != nil {
		return err
	}
	if err := t.cmd.Start(); err != nil {
		return err
	}
	if informs != nil {
		_ = informs.Close() // so that reading ends when bubblewrap does
	}
	if err := t.record(info); err != nil {
		return errors.Join(err, t.Kill(), t.cmd.Wait())
	}
	t.ended = make(chan struct{})
	if !t.dir.o.Placed { // else the kernel limits the size of the folder as a whole
		t.watching.Go(t.watchScratch)
	}
	return nil
}

// watchScratch interrupts a tool that exceeds its disk limit, and kills it if it reaches
// twice the limit.
func (t *Running) watchScratch() {
	tick := time.NewTicker(scratchTime)
	defer tick.Stop()
	for full := false; ; {
		select {
		case <-t.ended:
			return
		case <-tick.C:
		}
		if !full {
			if err := t.o.CheckScratch(t.dir); err != nil {
				full = true
				t.fail(errors.Join(err, t.Interrupt()))
			}
			continue
		}
		if err := t.dir.checkSpace(2 * t.o.maxScratch()); err != nil {
			t.fail(errors.Join(err, t.Kill()))
			return
		}
	}
}

// fail keeps the first error of concurrent work.
func (t *Running) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = cmp.Or(t.err, err)
}

// openAgain opens a pipe a second time: a descriptor handed to another process becomes
// blocking, and reads from it would ignore deadlines.
func openAgain(f *os.File) (*os.File, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var again *os.File
	cerr := c.Control(func(fd uintptr) { again, err = os.Open("/proc/self/fd/" + strconv.Itoa(int(fd))) })
	return again, errors.Join(cerr, err)
}

// pipeSize is the largest size for an unprivileged process (pipe(7)).
const pipeSize = 1 << 20

// sameWriter reports whether both outputs go to one writer, which only one goroutine may write to.
func sameWriter(a, b io.Writer) bool {
	if a == nil || b == nil {
		return false
	}
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// copy passes output on until nothing can write any more.
func (t *Running) copy(to io.Writer, from *os.File) {
	t.copying.Go(func() {
		_, err := io.Copy(to, from)
		if err != nil && !errors.Is(err, fs.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.fail(err)
		}
	})
}

func (t *Running) closePipes() {
	for _, r := range t.pipes {
		_ = r.Close() // only read
	}
	t.copying.Wait()
}

// maxInfo bounds what bubblewrap reports of a sandbox: one line, about 100 bytes.
const maxInfo = 4 << 10

// record finds the leader of the tool's group and writes it to a file. A command that
// could not be started has none: its status says why.
func (t *Running) record(info *os.File) (err error) {
	pid := t.cmd.Process.Pid
	if info != nil {
		var answer struct {
			Child int `json:"child-pid"`
		}
		b, err := io.ReadAll(io.LimitReader(bufio.NewReader(info), maxInfo))
		if err != nil {
			return err
		}
		if json.Unmarshal(b, &answer) != nil || answer.Child <= 1 {
			return nil // bubblewrap has written the reason to standard error
		}
		pid = answer.Child
	}
	if t.group, err = Identify(pid); errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended already
	}
	if err != nil {
		return err
	}
	b, err := json.Marshal(t.group)
	if err != nil {
		return err
	}
	return files.Replace(filepath.Join(t.o.Scratch, toolFile), b, 0o600)
}

// Interrupt asks the tool to end in order, like Ctrl-C on a terminal. It does so only
// once: a second interrupt would end the tool at once, without storing a state.
func (t *Running) Interrupt() (err error) {
	t.interrupted.Do(func() { err = t.group.interrupt() })
	return err
}

// Kill kills the tool and all processes that it started.
func (t *Running) Kill() error {
	return errors.Join(t.killRest(), ignoreGone(t.cmd.Process.Kill()))
}

// outputTime is how long to wait for output after all known writers died: a process that
// hid itself may still hold the pipe.
const outputTime = 2 * time.Second

// Wait waits until the tool has ended, kills its remaining processes, and returns its status like
// [exec.Cmd.Wait], or that it filled its folder. All output was passed on by then.
func (t *Running) Wait() error {
	err := t.cmd.Wait()
	close(t.ended)
	t.watching.Wait()
	rest := t.killRest()
	for _, r := range t.pipes {
		_ = r.SetReadDeadline(time.Now().Add(outputTime)) // a pipe always supports deadlines
	}
	t.copying.Wait()
	t.closePipes()
	if rerr := os.Remove(filepath.Join(t.o.Scratch, toolFile)); !errors.Is(rerr, fs.ErrNotExist) {
		rest = errors.Join(rest, rerr)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.Is(t.err, errFull) {
		return t.err // the reason of the failure
	}
	return cmp.Or(err, errors.Join(rest, t.err))
}

// killRest kills all but the command that [Running.Wait] waits for, which in a sandbox ends
// with its namespace.
func (t *Running) killRest() error {
	if c := t.o.Isolation.Cgroup; c != "" {
		if err := killCgroup(c); err != nil {
			return err
		}
	}
	if t.o.Isolation.Mode == ModeSandbox {
		err := t.group.killAndWait()
		if pid := t.group.PID; pid > 0 { // it becomes our child once bubblewrap has ended
			var status unix.WaitStatus
			_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil) // otherwise it is not our child
		}
		return err
	}
	for {
		all, err := allProcesses()
		if err != nil {
			return err
		}
		ours := t.cmd.Process.Pid
		own := t.o.Isolation.Mode == ModeUser
		list := descendantsOf(all, func(p procInfo) bool {
			orphan := t.alone && p.parent == os.Getpid()
			ofUser := own && p.user() == t.o.Isolation.UID
			return p.PID != ours && (p.group == ours || orphan || ofUser)
		})
		reapDead(all, func(pid int) bool { return pid == ours || !t.alone })
		if len(list) == 0 {
			return nil
		}
		if err := killProcesses(list); err != nil {
			return err
		}
	}
}

func killProcesses(list []Process) error {
	var errs []error
	for _, p := range list {
		errs = append(errs, p.Signal(syscall.SIGKILL))
	}
	return errors.Join(errs...)
}

// interrupt sends an interrupt to the group that p leads.
func (p Process) interrupt() error {
	if !p.Alive() {
		return nil
	}
	return ignoreGone(unix.Kill(-p.PID, unix.SIGINT))
}

func ignoreGone(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
