// SPDX-License-Identifier: Apache-2.0

package localexec

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

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/internal/files"
)

// toolFile of a scratch folder names the process of [tool.group], for whoever
// ends the rest of a run whose child is dead.
const toolFile = "tool.json"

// tool is a command that runs, with all that it starts.
type tool struct {
	o     *Order
	alone bool
	cmd   *exec.Cmd
	// group leads the process group that the tool is in. In a sandbox it is the
	// first process of the namespace, which ignores what the tool takes as an
	// interrupt, and whose death is everybody's.
	group   process
	copying sync.WaitGroup
	pipes   []*os.File // our ends; closed when nobody can write any more

	interrupted sync.Once

	watching sync.WaitGroup
	ended    chan struct{} // closed when the tool has

	mu  sync.Mutex // guards err
	err error      // of copying, or what ended the tool
}

// startTool starts a command of the tool as the order's isolation has it.
// Whoever starts it must wait for it.
func (o *Order) startTool(c toolCommand) (startedTool, error) { return o.startCommand(c) }

func (o *Order) startCommand(c toolCommand) (*tool, error) {
	t := &tool{o: o, alone: c.Alone}
	if err := t.start(c); err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.Program, err)
	}
	return t, nil
}

func (t *tool) start(c toolCommand) (err error) {
	if err := t.o.dir.Begin(); err != nil {
		return err
	}
	var info, informs *os.File
	line := t.o.commandLine(c, 3) // the first of ExtraFiles
	t.cmd = exec.Command(line[0], line[1:]...)
	t.cmd.Dir = "/"
	t.cmd.Env = c.Env
	attr := &syscall.SysProcAttr{Setpgid: true}
	if uid := t.o.Isolation.UID; uid > 0 && t.o.Isolation.Mode == Sandbox {
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(t.o.Isolation.GID)}
	}
	t.cmd.SysProcAttr = attr
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the tool has its own
		}
		if err != nil {
			t.closePipes()
		}
	}()
	if t.o.Isolation.Mode == Sandbox {
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
		// The tool holds the reading end too. Else its first line after our death
		// would kill it by SIGPIPE, before it writes down the state that it could
		// not store.
		held, err := openAgain(r)
		if err != nil {
			return err
		}
		theirs = append(theirs, held)
		t.cmd.ExtraFiles = append(t.cmd.ExtraFiles, held)
		_, _ = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, pipeSize) // what nobody reads any more has room
		defer t.copy(out, r)
	}
	if files[0] != nil {
		t.cmd.Stdout = files[0]
	}
	if files[1] != nil {
		t.cmd.Stderr = files[1]
	}
	if err := keepFiles(); err != nil {
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
	if !t.o.dir.Bounded() {
		t.watching.Go(t.watchScratch)
	}
	return nil
}

// watchScratch interrupts a tool that fills the disk, and kills one that goes on
// until it has twice of what it may.
func (t *tool) watchScratch() {
	tick := time.NewTicker(scratchTime)
	defer tick.Stop()
	for full := false; ; {
		select {
		case <-t.ended:
			return
		case <-tick.C:
		}
		if !full {
			if err := t.o.checkScratch(); err != nil {
				full = true
				t.fail(errors.Join(err, t.Interrupt()))
			}
			continue
		}
		if err := t.o.dir.Check(2 * t.o.maxScratch()); err != nil {
			t.fail(errors.Join(err, t.Kill()))
			return
		}
	}
}

// fail keeps the first error of what is done beside the tool.
func (t *tool) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = cmp.Or(t.err, err)
}

// openAgain opens a pipe a second time. What is handed to another process becomes
// blocking, and reading it would heed no deadline.
func openAgain(f *os.File) (*os.File, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var again *os.File
	cerr := c.Control(func(fd uintptr) { again, err = os.Open("/proc/self/fd/" + strconv.Itoa(int(fd))) })
	return again, errors.Join(cerr, err)
}

// keepFiles keeps from the tool what whoever started the server left open in it.
func keepFiles() error {
	return os.NewSyscallError("close_range", unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC))
}

// pipeSize is what an unprivileged process may have (pipe(7)).
const pipeSize = 1 << 20

// sameWriter reports whether both kinds of output go to one writer, which is then
// written to by one goroutine.
func sameWriter(a, b io.Writer) bool {
	if a == nil || b == nil {
		return false
	}
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// copy passes output on until nobody can write any more.
func (t *tool) copy(to io.Writer, from *os.File) {
	t.copying.Go(func() {
		_, err := io.Copy(to, from)
		if err != nil && !errors.Is(err, fs.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.fail(err)
		}
	})
}

func (t *tool) closePipes() {
	for _, r := range t.pipes {
		_ = r.Close() // only read
	}
	t.copying.Wait()
}

// maxInfo bounds what bubblewrap says of a sandbox: one line, about 100 bytes.
const maxInfo = 4 << 10

// record finds the leader of the tool's group and writes it down. A command
// that could not be started at all has none: its status tells.
func (t *tool) record(info *os.File) (err error) {
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
			return nil // bubblewrap has said why on its standard error
		}
		pid = answer.Child
	}
	if t.group, err = newProcess(pid); errors.Is(err, fs.ErrNotExist) {
		return nil // it was that short
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

// Interrupt asks the tool to end in order, as Ctrl-C on a terminal does. It does so
// once: a second one would end it at once, without storing a state.
func (t *tool) Interrupt() (err error) {
	t.interrupted.Do(func() { err = t.group.interrupt() })
	return err
}

// Kill ends the tool and all that it started, at once.
func (t *tool) Kill() error {
	return errors.Join(t.killRest(), ignoreGone(t.cmd.Process.Kill()))
}

// outputTime is how long output is waited for after the death of all that
// should write it: what hid itself may still hold the pipe.
const outputTime = 2 * time.Second

// Wait waits until the tool has ended, kills what it left, and returns its
// status as [exec.Cmd.Wait] does. Everything it wrote was passed on by then.
func (t *tool) Wait() error {
	err := t.cmd.Wait()
	close(t.ended)
	t.watching.Wait()
	rest := t.killRest()
	for _, r := range t.pipes {
		_ = r.SetReadDeadline(time.Now().Add(outputTime)) // a pipe always has one
	}
	t.copying.Wait()
	t.closePipes()
	if rerr := os.Remove(filepath.Join(t.o.Scratch, toolFile)); !errors.Is(rerr, fs.ErrNotExist) {
		rest = errors.Join(rest, rerr)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.Is(t.err, sandbox.ErrFull) {
		return t.err // which is why it failed
	}
	return cmp.Or(err, errors.Join(rest, t.err))
}

// killRest kills all but the command that we wait for ourselves, which in a
// sandbox ends with its namespace.
func (t *tool) killRest() error {
	if c := t.o.Isolation.Cgroup; c != "" {
		if err := killCgroup(c); err != nil {
			return err
		}
	}
	if t.o.Isolation.Mode == Sandbox {
		err := t.group.end()
		if pid := t.group.PID; pid > 0 { // it is ours once bubblewrap has ended
			var status unix.WaitStatus
			_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil) // else it is not
		}
		return err
	}
	for {
		all, err := processes()
		if err != nil {
			return err
		}
		ours := t.cmd.Process.Pid
		own := t.o.Isolation.Mode == OwnUser
		list := descent(all, func(p procInfo) bool {
			orphan := t.alone && p.parent == os.Getpid()
			ofUser := own && p.user() == t.o.Isolation.UID
			return p.PID != ours && (p.group == ours || orphan || ofUser)
		})
		reap(all, func(pid int) bool { return pid == ours || !t.alone })
		if len(list) == 0 {
			return nil
		}
		if err := kill(list); err != nil {
			return err
		}
	}
}

// kill ends processes at once.
func kill(list []process) error {
	var errs []error
	for _, p := range list {
		errs = append(errs, p.signal(syscall.SIGKILL))
	}
	return errors.Join(errs...)
}

// interrupt sends an interrupt to the group that p leads.
func (p process) interrupt() error {
	if !p.alive() {
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
