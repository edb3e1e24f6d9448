// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/statebackend"
)

// RunCommand is the command of okara that reads a [sandbox.Order] from its standard input.
const RunCommand = "instance-run"

// LocalOptions configure the local executor.
type LocalOptions struct {
	// Storage is the folder of the server, absolute; required. The scratch folders of
	// runs are below runs.
	Storage string
	// Okara is the path of this program; "": as the operating system reports it.
	Okara string
	// Program is tofu or terraform, by name or path; "": tofu.
	Program string
	// Isolation is one of the modes; "": [sandbox.ModeSandbox].
	Isolation string
	// Wrap is the command that starts the tool in mode [sandbox.ModeWrap]: ${scratch}
	// is the folder that it needs, ${program} the tool.
	Wrap []string
	// Users are for mode [sandbox.ModeUser], one for each concurrent run.
	Users []User
	// Show lists further files and folders that a sandbox shows, read-only.
	Show []string
	// Processes limits processes and threads of a run; 0: 4096.
	Processes int
	// Memory in bytes and CPUs limit a run without its own; 0: no limit. CPUs need a delegated cgroup.
	Memory int64
	CPUs   float64
	// Packages is the maximum size of the shared providers, in bytes; 0: none are shared.
	Packages int64
	// Credentials are those that templates may name.
	Credentials map[string]Credential
	// Only means that no other server runs these instances: what did not start here never started.
	Only bool
	// Getenv reads the environment of the server; required.
	Getenv func(string) string
	// Order returns what a child needs besides the spec: registry, front-end, state keys; required.
	Order func(ctx context.Context, s run.Attempt) (sandbox.Order, error)
	// Instance returns the repository with the results of an instance; required.
	Instance func(ctx context.Context, s run.Attempt) (records.InstanceRepo, error)
	// State returns the store of a state, asked only for the holder of the lock; required.
	State func(ctx context.Context, s run.Attempt) (*statebackend.Store, error)
	// Logger receives what an operator must know; nil: it is discarded.
	Logger *slog.Logger
}

// User is a user of the machine.
type User struct{ UID, GID int }

// Local runs the tool on this machine, each attempt in a process that outlives the server.
type Local struct {
	reaper
	o         LocalOptions
	here      machine
	isolation sandbox.Isolation // of all attempts; user and control group are set for each attempt
	tool      string            // what it is, if it is known what it refuses
	cgroup    string            // delegated control group; "": none

	mu           sync.Mutex // guards observations
	observations map[lifecycle.Ref]*observation
}

// NewLocal checks that the tool can be run, and removes leftovers of earlier runs.
func NewLocal(ctx context.Context, o LocalOptions) (*Local, error) {
	l := makeLocal(o)
	err := l.prepare(ctx)
	if err == nil {
		if l.cgroup, err = delegatedCgroup(); err != nil {
			l.o.Logger.WarnContext(ctx, "instances: the delegated control group cannot be divided: limits apply to each process, not each run", "error", err)
		}
		err = errors.Join(cleanUpFolders(l), cleanUpCgroups(ctx, l), sandbox.Remove(filepath.Join(l.o.Storage, "plugins"))) // used by earlier versions
	}
	if err != nil {
		return nil, fmt.Errorf("executor local: %w", err)
	}
	return l, nil
}

func makeLocal(o LocalOptions) *Local {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Local{o: o, observations: map[lifecycle.Ref]*observation{}, reaper: reaper{ends: map[lifecycle.Ref]chan struct{}{}}}
}

// CheckLocal returns what [NewLocal] would find wrong. It leaves nothing; a server may be running.
func CheckLocal(ctx context.Context, o LocalOptions) error {
	isolation, err := o.isolation() // of the storage that is configured
	if err != nil {
		return fmt.Errorf("executor local: %w", err)
	}
	dir, done, err := files.TempDir("")
	if err != nil {
		return err
	}
	o.Storage = dir
	l := makeLocal(o)
	l.isolation = isolation
	if err = makeFolders(l.folderMode(), filepath.Dir(dir), dir); err == nil {
		err = l.prepare(ctx)
	}
	if err = errors.Join(err, done()); err != nil {
		return fmt.Errorf("executor local: %w", err)
	}
	return nil
}

func (l *Local) prepare(ctx context.Context) (err error) {
	if l.here, err = thisMachine(); err != nil {
		return err
	}
	if err := sandbox.Harden(); err != nil {
		return err
	}
	if l.o.Okara == "" {
		if l.o.Okara, err = os.Executable(); err != nil {
			return err
		}
	}
	l.o.Okara = sandbox.Resolve(l.o.Okara)
	if l.o.Program, err = findProgram(cmp.Or(l.o.Program, "tofu")); err != nil {
		return err
	}
	if l.isolation, err = l.o.isolation(); err != nil {
		return err
	}
	if err := makeFolders(l.folderMode(), l.runsFolder()); err != nil {
		return err
	}
	return l.checkTool(ctx)
}

func findProgram(name string) (string, error) {
	file, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w\nhint: install it, or set another one: executor \"local\" { program = … }", err)
	}
	return filepath.Abs(file)
}

func (l *Local) runsFolder() string { return filepath.Join(l.o.Storage, "runs") }

// attemptName returns the name of an attempt in its environment and for display.
func attemptName(r lifecycle.Ref) string { return r.ID + "-" + folderName(r) }

func folderName(r lifecycle.Ref) string { return strconv.Itoa(r.N) + "-" + strconv.Itoa(r.Attempt) }

// scratch returns the folder of an attempt, the parts of whose name checkRef checks.
func (l *Local) scratch(r lifecycle.Ref) string {
	return filepath.Join(l.runsFolder(), r.ID, folderName(r))
}

// checkRef refuses an invalid attempt, since its parts become names of folders.
func checkRef(r lifecycle.Ref) error {
	tag := records.InstanceTag{Kind: records.TagRun, ID: r.ID, N: r.N, Attempt: r.Attempt}
	if _, ok := records.ParseInstanceTag(tag.String()); !ok || r.Nonce == "" {
		return fmt.Errorf("%q is not an attempt of a run", tag)
	}
	return nil
}

// parsedHandle is a handle: where and when an attempt began, and its child; zero: no credential.
type parsedHandle struct {
	machine
	sandbox.Process
	At int64 `json:"at"` // time of the start, in Unix seconds
}

// maxHost limits the host name so that a handle fits into 256 bytes.
const maxHost = 64

func (h parsedHandle) String() run.Handle {
	h.Host = h.Host[:min(len(h.Host), maxHost)]
	b, err := json.Marshal(h)
	if err != nil {
		return "" // numbers and text always marshal
	}
	return run.Handle(b)
}

func parseHandle(h run.Handle) (parsedHandle, error) {
	var p parsedHandle
	if len(h) > 256 {
		return p, errors.New("a handle of more than 256 bytes")
	}
	if err := json.Unmarshal([]byte(h), &p); err != nil {
		return p, fmt.Errorf("handle not issued by this executor: %w", err)
	}
	return p, nil
}

// marker is the file that identifies a scratch folder's attempt, written before the child's order.
type marker struct {
	parsedHandle
	LockID string `json:"lock_id"` // identifies the attempt: see [run.LockID]
	UID    int    `json:"uid,omitempty"`
	Cgroup string `json:"cgroup,omitempty"`
}

const markerFile = "process.json"

func readMarker(dir string) (marker, error) {
	var m marker
	b, err := files.ReadPrivate(filepath.Join(dir, markerFile), 4<<10)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(b, &m)
}

// errOther refuses an attempt whose number a running one has that the ledger forgot.
var errOther = errors.New("another attempt with this number is still running here")

// startAttempt begins an attempt. Without its credential it counts as begun, and is started when it is observed.
func (l *Local) startAttempt(ctx context.Context, s run.Attempt) (run.Handle, error) {
	m, err := l.beginAttempt(ctx, s)
	if _, ok := errors.AsType[*CredentialError](err); ok {
		return parsedHandle{machine: l.here, At: time.Now().Unix()}.String(), nil
	}
	if err != nil {
		return "", fmt.Errorf("starting attempt %s: %w", attemptName(s.Ref), err)
	}
	return m.parsedHandle.String(), nil
}

// lockRuns waits for the lock under which servers begin attempts. Closing the result releases it.
func (l *Local) lockRuns(ctx context.Context) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(l.runsFolder(), "lock"), flock.SetPermissions(0o600))
	_, err := lock.TryLockContext(ctx, 10*time.Millisecond)
	return lock, err
}

// beginAttempt starts the child of an attempt unless it exists, under the lock of all runs.
func (l *Local) beginAttempt(ctx context.Context, s run.Attempt) (m marker, err error) {
	dir := l.scratch(s.Ref)
	if m, err = readMarker(dir); err == nil && m.LockID == run.LockID(s.Ref) {
		return m, nil
	}
	o, err := l.orderFor(ctx, s) // may take long: it may run a credential's command
	if err != nil {
		return m, err
	}
	lock, err := l.lockRuns(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	switch m, err = readMarker(dir); {
	case err == nil && m.LockID == run.LockID(s.Ref):
		return m, nil
	case err == nil && l.isRunning(dir, m):
		return m, errOther
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return m, err
	}
	if err := l.prepareRun(o); err != nil {
		return m, err
	}
	return l.startChild(o)
}

// prepareRun makes an attempt's folders, and its user and control group if it has them.
func (l *Local) prepareRun(o *sandbox.Order) (err error) {
	if l.isolation.Mode == sandbox.ModeUser {
		u, err := l.freeUser()
		if err != nil {
			return err
		}
		o.Isolation.UID = u.UID
		o.Isolation.GID = u.GID
	}
	if l.cgroup != "" {
		if o.Isolation.Cgroup, err = newCgroup(l.cgroup, "run-"+attemptName(o.Spec.Ref), o.Spec.Limits.Memory, o.Isolation.Processes, l.o.CPUs); err != nil {
			return err
		}
	}
	if err := sandbox.Remove(o.Scratch); err != nil { // left by an interrupted start
		return err
	}
	if err := makeFolders(l.folderMode(), filepath.Dir(o.Scratch), o.Scratch); err != nil || o.PackagesDir() == "" {
		return err
	}
	return makeFolders(0o711, o.PackagesDir()) // the user of a sandbox may differ
}

// folderMode lets the user of a run enter its folder, and read nothing else.
func (l *Local) folderMode() fs.FileMode {
	if l.isolation.Mode == sandbox.ModeUser {
		return 0o711
	}
	return 0o700
}

// orderFor puts together the order for the child.
func (l *Local) orderFor(ctx context.Context, s run.Attempt) (*sandbox.Order, error) {
	g, err := l.o.resolveCredentials(ctx, s)
	if err != nil {
		return nil, err
	}
	o, err := l.o.Order(ctx, s)
	if err != nil {
		return nil, err
	}
	o.Spec = s
	o.Okara = l.o.Okara
	o.Program = l.o.Program
	o.Scratch = l.scratch(s.Ref)
	o.Isolation = l.isolation
	o.Environment = g.environment
	o.Files = g.files
	if l.isolation.Mode == sandbox.ModeSandbox && o.Server.URL != "" && l.o.Packages > 0 { // in other modes runs could write to it
		o.Packages = sandbox.Packages{Dir: filepath.Join(l.o.Storage, "packages"), Max: l.o.Packages}
	}
	o.Spec.Limits.Memory = cmp.Or(s.Limits.Memory, l.o.Memory)
	return &o, nil
}

// freeUser returns a user that no run on this machine uses.
func (l *Local) freeUser() (User, error) {
	taken := map[int]bool{}
	err := l.eachAttempt("*", func(dir string, m marker, unread error) error {
		if unread == nil && m.UID > 0 && l.isRunning(dir, m) {
			taken[m.UID] = true
		}
		return nil
	})
	if err != nil {
		return User{}, err
	}
	for _, u := range l.o.Users {
		if !taken[u.UID] {
			return u, nil
		}
	}
	return User{}, fmt.Errorf("all %d users of the executor are in use\nhint: add users, as many as instances { runs } allows at once", len(l.o.Users))
}

// environment returns a child's environment: search path and network. The rest is in its order.
func (o *LocalOptions) environment() []string {
	env := []string{"PATH=" + cmp.Or(o.Getenv("PATH"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), "LANG=" + cmp.Or(o.Getenv("LANG"), "C.UTF-8")}
	for _, name := range append(sandbox.OutsideVariables(), usage.Variable) {
		if v := o.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// orderTime is how long a child may take to read its order.
const orderTime = 30 * time.Second

// startChild starts a child, records it, and then sends its order: an unrecorded child ends.
func (l *Local) startChild(o *sandbox.Order) (m marker, err error) {
	b, err := json.Marshal(o)
	if err != nil {
		return m, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return m, err
	}
	defer w.Close() // closed earlier on success
	childLog, err := os.OpenFile(filepath.Join(o.Scratch, "child.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return m, errors.Join(err, r.Close())
	}
	pid, err := l.startProcess(o, r, childLog, childLog)
	err = errors.Join(err, r.Close(), childLog.Close())
	if err != nil {
		return m, err
	}
	m = marker{parsedHandle: parsedHandle{machine: l.here, At: time.Now().Unix()}, LockID: run.LockID(o.Spec.Ref), UID: o.Isolation.UID, Cgroup: o.Isolation.Cgroup}
	m.Process, err = sandbox.Identify(pid)
	if err == nil {
		err = writeMarker(o.Scratch, m)
	}
	if err == nil {
		err = errors.Join(w.SetWriteDeadline(time.Now().Add(orderTime)), writeBytes(w, b), w.Close())
	}
	if err != nil {
		return m, errors.Join(err, m.Process.Signal(syscall.SIGKILL))
	}
	return m, nil
}

func writeBytes(w *os.File, b []byte) error {
	_, err := w.Write(b)
	return err
}

func writeMarker(dir string, m marker) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return files.Replace(filepath.Join(dir, markerFile), b, 0o600)
}

// startProcess starts a child and returns its ID. In a sandbox it is reparented to this process.
func (l *Local) startProcess(o *sandbox.Order, in, out, errs *os.File) (pid int, err error) {
	line := []string{RunCommand}
	if o.Isolation.Mode == sandbox.ModeSandbox {
		line = append(o.EnterArgs(), l.o.Okara, RunCommand)
	}
	cmd := exec.Command(l.o.Okara, line...)
	cmd.Dir = o.Scratch
	cmd.Env = append(l.o.environment(), "HOME="+o.Scratch, "TMPDIR="+o.Scratch, "OKARA_RUN="+attemptName(o.Spec.Ref))
	cmd.Stdin = in
	cmd.Stdout = out
	cmd.Stderr = errs
	cmd.SysProcAttr = ownSession()
	if o.Isolation.Mode != sandbox.ModeSandbox {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		l.reapChild(o.Spec.Ref, func() { _ = cmd.Wait() }) // its result has all that its status says
		return cmd.Process.Pid, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	cmd.ExtraFiles = []*os.File{w}
	err = errors.Join(cmd.Start(), w.Close())
	if err != nil {
		return 0, err
	}
	_, read := fmt.Fscan(r, &pid) // the started process ends at once
	if err := cmd.Wait(); err != nil || read != nil {
		return 0, errNamespace
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return 0, err
	}
	l.reapChild(o.Spec.Ref, func() { _, _ = p.Wait() }) // as above; without Harden it is not our child
	return pid, nil
}

// errNamespace reports that no namespace could be made for a sandbox.
var errNamespace = errors.New("no namespace could be created for the run")
