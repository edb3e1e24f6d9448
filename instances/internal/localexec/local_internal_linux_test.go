// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// localTest is an executor whose tool is a shell.
type localTest struct {
	*Local
	host    string
	options LocalOptions
}

// begun returns an attempt that may have begun, with its handle.
func begun(s run.Attempt, h run.Handle) run.Attempt {
	s.Begun, s.Handle = true, h
	return s
}

func (l *localTest) Start(ctx context.Context, s run.Attempt) (run.Handle, error) {
	st, err := l.Advance(ctx, s)
	return st.Handle, err
}

func (l *localTest) Observe(ctx context.Context, s run.Attempt, h run.Handle) (run.Status, error) {
	return l.Advance(ctx, begun(s, h))
}

func newLocal(t *testing.T, change func(*LocalOptions)) *localTest {
	t.Helper()
	l := &localTest{host: ocitest.New(t, ocitest.Quirks{})}
	okara, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l.options = LocalOptions{
		Storage: t.TempDir(), Okara: okara, Program: stubProgram(t), Isolation: sandbox.ModeNone,
		Getenv: func(string) string { return "" },
		Order: func(context.Context, run.Attempt) (sandbox.Order, error) {
			return sandbox.Order{StateKeys: "planted-secret"}, nil
		},
		Instance: func(_ context.Context, s run.Attempt) (records.InstanceRepo, error) { return stubRepo(s) },
		State: func(_ context.Context, s run.Attempt) (*statebackend.Store, error) {
			r, err := stubRepo(s)
			if err != nil {
				return nil, err
			}
			return statebackend.New(r.Repo, statebackend.Options{}), nil
		},
	}
	if change != nil {
		change(&l.options)
	}
	if l.Local, err = NewLocal(t.Context(), l.options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dirs, err := filepath.Glob(filepath.Join(l.runsFolder(), "*", "*-*"))
		if err != nil {
			t.Error(err)
		}
		for _, dir := range dirs {
			if m, err := readMarker(dir); err == nil {
				if err := l.kill(workDir{marker: m, folder: dir}); err != nil {
					t.Error(err)
				}
			}
		}
		l.reaping.Wait()
	})
	return l
}

// again returns the executor of a restarted server.
func (l *localTest) again(t *testing.T) *localTest {
	t.Helper()
	n := must.Get(NewLocal(t.Context(), l.options))(t)
	return &localTest{n, l.host, l.options}
}

// stubProgram returns a shell that reports a tool's version.
func stubProgram(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tofu")
	runtest.MustWrite(t, name, "#!/bin/sh\nif [ \"$1\" = version ]; then echo 'OpenTofu v1.12.6'; exit; fi\nexec /bin/sh \"$@\"\n")
	must.Succeed(t, os.Chmod(name, 0o755))
	return name
}

func (l *localTest) spec(t *testing.T, do stubOrder) run.Attempt {
	t.Helper()
	b := must.Get(json.Marshal(do))(t)
	return run.Attempt{
		Ref:       lifecycle.Ref{ID: "abcdefghjk", Kind: lifecycle.RunApply, N: 1, Attempt: 1, Nonce: "nonce"},
		Machine:   run.Machine{Repository: l.host + "/instances/abcdefghjk", Workspace: "default"},
		Variables: map[string]json.RawMessage{"stub": b},
	}
}

func (l *localTest) mustStart(t *testing.T, s run.Attempt) run.Handle {
	t.Helper()
	h := must.Get(l.Start(t.Context(), s))(t)
	if len(h) > 256 {
		t.Errorf("handle of %d bytes", len(h))
	}
	return h
}

// mustEnd observes an attempt until it has ended.
func (l *localTest) mustEnd(t *testing.T, s run.Attempt, h run.Handle) (st run.Status) {
	t.Helper()
	runtest.Await(t, "the end of the attempt", func() bool {
		var err error
		if st, err = l.Observe(t.Context(), s, h); err != nil {
			t.Fatal(err)
		}
		return st.State != run.Running
	})
	return st
}

func (l *localTest) mustRemain(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	dirs := must.Get(filepath.Glob(filepath.Join(l.runsFolder(), "*", "*-*")))(t)
	for _, dir := range dirs {
		got = append(got, filepath.Base(dir))
	}
	must.Match(t, "folders", got, want)
}

// TestLocal starts an attempt twice, reads its log and its result, and finds none of its
// files left.
//
// Shows: platform 15 | the engine's objects, status, clean-up | a child process for each attempt
func TestLocal(t *testing.T) {
	l := newLocal(t, nil)
	s := l.spec(t, stubOrder{Tool: "until [ -e go ]; do sleep 0.02; done", Nonce: "nonce"})
	if _, err := l.Observe(t.Context(), s, ""); err != nil {
		t.Error(err)
	}
	h := l.mustStart(t, s)
	must.Equal(t, "started again", l.again(t).mustStart(t, s), h)
	dir := l.scratch(s.Ref)
	runtest.MustAppear(t, filepath.Join(dir, "tool.json"))
	for _, name := range []string{"", "/" + markerFile, "/log", "/child.log"} {
		if info, err := os.Stat(dir + name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s%s: %v, %v", dir, name, info, err)
		}
	}
	for _, l := range []*localTest{l, l.again(t)} {
		if st, err := l.Observe(t.Context(), s, h); err != nil || st.State != run.Running {
			t.Errorf("%+v, %v", st, err)
		}
	}
	must.Equal(t, "log from byte 4", mustLog(t, l, s, h, 4), "log")
	mustGoOn(t, l, s)
	if st := l.mustEnd(t, s, h); st.State != run.Ended || st.Result.Outcome != lifecycle.Done || st.Result.Resources != 3 {
		t.Errorf("%+v", st)
	}
	l.mustRemain(t)
	for _, l := range []*localTest{l, l.again(t)} { // a replica that could not commit the result asks again
		if st := l.mustEnd(t, s, h); st.State != run.Ended {
			t.Errorf("%+v", st)
		}
	}
	must.Equal(t, "log after the end, from byte 10", mustLog(t, l, s, h, 10), "log")
	must.Equal(t, "log beyond its end", mustLog(t, l, s, h, 1000), "")
}

// mustGoOn lets the tool of an attempt continue.

func mustGoOn(t *testing.T, l *localTest, s run.Attempt) {
	t.Helper()
	runtest.MustWrite(t, filepath.Join(l.scratch(s.Ref), "work", sandbox.Tool, "go"), "")
}

func mustLog(t *testing.T, l *localTest, s run.Attempt, h run.Handle, offset int64) string {
	t.Helper()
	r := must.Get(l.Log(t.Context(), begun(s, h), offset))(t)
	defer r.Close()
	b := must.Get(io.ReadAll(r))(t)
	return string(b)
}

// TestAlone: what left its session ends with the run all the same.
func TestAlone(t *testing.T) {
	l := newLocal(t, nil)
	s := l.spec(t, stubOrder{Tool: "(setsid sleep 8642397 &); : > ready", Nonce: "nonce"})
	if st := l.mustEnd(t, s, l.mustStart(t, s)); st.State != run.Ended {
		t.Errorf("%+v", st)
	}
	if left := runtest.Running(t, "8642397"); len(left) > 0 {
		t.Errorf("left: %v, %v", left, runtest.Kill(left))
	}
}

// TestStartedEnvironment: exactly this list, nothing of the server's.
func TestStartedEnvironment(t *testing.T) {
	t.Setenv("OKARA_STATE_KEYS", "planted-secret")
	l := newLocal(t, func(o *LocalOptions) {
		env := map[string]string{"PATH": "/usr/bin:/bin", "LANG": "C", "HTTPS_PROXY": "http://proxy:1", "AWS_SECRET_ACCESS_KEY": "planted-secret", "SSL_CERT_DIR": "/etc/ssl/certs"}
		o.Getenv = func(name string) string { return env[name] }
		o.Credentials = map[string]Credential{"aws": {EnvFrom: []string{"AWS_SECRET_ACCESS_KEY"}}}
	})
	s := l.spec(t, stubOrder{Hang: true})
	s.Credentials = []string{"aws"}
	h := l.mustStart(t, s)
	dir := l.scratch(s.Ref)
	runtest.MustAppear(t, filepath.Join(dir, "hangs"))
	b := must.Get(os.ReadFile(filepath.Join(dir, "about")))(t)
	got := strings.Split(string(b), "\n")
	slices.Sort(got)
	want := []string{
		"HOME=" + dir, "HTTPS_PROXY=http://proxy:1", "LANG=C", "OKARA_RUN=abcdefghjk-1-1", "PATH=/usr/bin:/bin", "SSL_CERT_DIR=/etc/ssl/certs", "TMPDIR=" + dir,
	}
	must.Match(t, "environment and arguments", got, want)
	if b, err := os.ReadFile(filepath.Join(dir, markerFile)); err != nil || strings.Contains(string(b), "nonce\"") || strings.Contains(string(h), "nonce\"") {
		t.Errorf("%s, %s, %v: the nonce is in it", b, h, err)
	}
	must.Succeed(t, l.Cancel(t.Context(), begun(s, h), false))
	if st := l.mustEnd(t, s, h); st.State != run.Gone {
		t.Errorf("%+v", st)
	}
	l.mustRemain(t)
}

// TestCredentialMissing: the attempt waits, says for what, and starts.
func TestCredentialMissing(t *testing.T) {
	env := map[string]string{}
	l := newLocal(t, func(o *LocalOptions) {
		o.Getenv = func(name string) string { return env[name] }
		o.Credentials = map[string]Credential{"aws": {EnvFrom: []string{"AWS_PROFILE"}}}
	})
	s := l.spec(t, stubOrder{Nonce: "nonce"})
	s.Credentials = []string{"aws"}
	h := l.mustStart(t, s)
	for _, l := range []*localTest{l, l.again(t)} {
		st, err := l.Observe(t.Context(), s, h)
		if err != nil || st.State != run.Running || st.Waiting != lifecycle.WaitCredentialMissing || st.Message != "credential aws: the variable AWS_PROFILE of the server is not set" {
			t.Errorf("%+v, %v", st, err)
		}
	}
	env["AWS_PROFILE"] = "sandbox"
	if st := l.mustEnd(t, s, h); st.State != run.Ended || st.Result.Outcome != lifecycle.Done {
		t.Errorf("%+v", st)
	}

	delete(env, "AWS_PROFILE")
	s.Ref.Attempt = 2
	h = l.mustStart(t, s)
	must.Succeed(t, l.Cancel(t.Context(), begun(s, h), false))
	if st := l.mustEnd(t, s, h); st.State != run.Ended || st.Result.Outcome != lifecycle.Cancelled {
		t.Errorf("%+v", st)
	}
}

func TestRefusedRef(t *testing.T) {
	l := newLocal(t, nil)
	for _, id := range []string{"", "..", "a/b", "A", "../../etc"} {
		s := l.spec(t, stubOrder{})
		s.Ref.ID = id
		if _, err := l.Start(t.Context(), s); err == nil {
			t.Errorf("%q: started", id)
		}
	}
	for _, h := range []run.Handle{"{", run.Handle(strings.Repeat(" ", 300))} {
		if _, err := l.Observe(t.Context(), l.spec(t, stubOrder{}), h); err == nil {
			t.Errorf("handle %q: no error", h)
		}
	}
}

// TestCleanUp removes old folders, and keeps those still needed.
func TestCleanUp(t *testing.T) {
	l := newLocal(t, nil)
	dead := marker{parsedHandle: parsedHandle{machine: l.here, Process: sandbox.Process{PID: 1 << 30, Start: 1}}}
	old := time.Now().Add(-40 * 24 * time.Hour)
	for name, f := range map[string]struct {
		marker  *marker
		errored bool
		at      time.Time
	}{
		"1-1": {nil, false, time.Now()},
		"1-2": {&dead, false, time.Now()},
		"1-3": {&dead, false, old},
		"1-4": {&dead, true, time.Now().Add(-48 * time.Hour)},
		"1-5": {&dead, true, old},
	} {
		dir := filepath.Join(l.runsFolder(), "abc", name)
		runtest.MustWrite(t, filepath.Join(dir, "work", "file"), "")
		if f.marker != nil {
			must.Succeed(t, writeMarker(dir, *f.marker))
		}
		if f.errored {
			runtest.MustWrite(t, filepath.Join(dir, "attempt.json"), `{"module":"module"}`)
			runtest.MustWrite(t, filepath.Join(dir, "work", sandbox.Tool, "module", sandbox.ErroredFile), "{}")
		}
		must.Succeed(t, os.Chtimes(dir, f.at, f.at))
	}
	l.again(t).mustRemain(t, "1-2", "1-4")
}

// TestErroredBudget: unstored states together are no more than one may be.
func TestErroredBudget(t *testing.T) {
	l := newLocal(t, nil)
	dead := marker{parsedHandle: parsedHandle{machine: l.here, Process: sandbox.Process{PID: 1 << 30, Start: 1}}}
	for i, size := range []int64{sandbox.MaxErrored / 4, sandbox.MaxErrored / 2, sandbox.MaxErrored / 2, sandbox.MaxErrored} {
		dir := filepath.Join(l.runsFolder(), "abc", strconv.Itoa(i+1)+"-1")
		file := filepath.Join(dir, sandbox.ErroredFile)
		runtest.MustWrite(t, filepath.Join(dir, "attempt.json"), `{"module":"module"}`)
		runtest.MustWrite(t, file, "")
		must.Succeed(t, errors.Join(writeMarker(dir, dead), os.Truncate(file, size)))
		must.Succeed(t, cleanErrored(l.Local, "abc"))
		l.mustRemain(t, [][]string{{"1-1"}, {"1-1", "2-1"}, {"2-1", "3-1"}, {"4-1"}}[i]...)
	}
}

// TestTidy removes gone instances' folders, but of running and new attempts, and unstored states.
func TestTidy(t *testing.T) {
	l := newLocal(t, nil)
	now := time.Now()
	dead := marker{parsedHandle: parsedHandle{machine: l.here, Process: sandbox.Process{PID: 1 << 30, Start: 1}, At: now.Add(-time.Minute).Unix()}}
	self := must.Get(sandbox.Identify(os.Getpid()))(t)
	alive, later := dead, dead
	alive.Process, later.At = self, now.Add(time.Minute).Unix()
	for name, m := range map[string]marker{"gone/1-1": dead, "gone/1-2": alive, "gone/2-1": later, "here/3-1": dead} {
		dir := filepath.Join(l.runsFolder(), name)
		runtest.MustWrite(t, filepath.Join(dir, sandbox.ResultFile), "{}")
		must.Succeed(t, writeMarker(dir, m))
	}
	errored := filepath.Join(l.runsFolder(), "gone", "2-2")
	runtest.MustWrite(t, filepath.Join(errored, "attempt.json"), `{"module":"module"}`)
	must.Succeed(t, writeMarker(errored, dead))
	runtest.MustWrite(t, filepath.Join(errored, "work", sandbox.Tool, "module", sandbox.ErroredFile), "{}")
	must.Succeed(t, l.Tidy(now, func(id string) bool { return id == "gone" }))
	l.mustRemain(t, "1-2", "2-1", "2-2", "3-1")
	if err := os.Remove(filepath.Join(l.runsFolder(), "gone", "1-2", markerFile)); err != nil { // otherwise the test's own process counts as a child
		t.Fatal(err)
	}
}

// TestCheck refuses at start an isolation or tool that is not available.
func TestCheck(t *testing.T) {
	base := newLocal(t, nil).options
	old := filepath.Join(t.TempDir(), "tofu")
	runtest.MustWrite(t, old, "#!/bin/sh\necho 'OpenTofu v1.9.4'\n")
	must.Succeed(t, os.Chmod(old, 0o755))
	unreachable := "cannot reach " + filepath.Dir(base.Storage)
	if os.Geteuid() != 0 {
		unreachable = "needs a server that runs as root"
	} else if err := os.Chmod(filepath.Dir(base.Storage), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		change     func(*LocalOptions)
	}{
		{"a storage that the user of a run cannot enter", unreachable, func(o *LocalOptions) { o.Isolation, o.Users = sandbox.ModeUser, []User{{61234, 61234}} }},
		{"a storage that a sandbox covers", "choose another storage folder", func(o *LocalOptions) { o.Isolation, o.Storage = sandbox.ModeSandbox, "/dev/shm/okara" }},
		{"old tool", "1.9.4, which cannot lock", func(o *LocalOptions) { o.Program = old }},
		{"no tool", "hint: install it", func(o *LocalOptions) { o.Program = "/nowhere/tofu" }},
		{"other program", "OpenTofu or Terraform", func(o *LocalOptions) { o.Program = "/bin/true" }},
		{"no users", "requires users", func(o *LocalOptions) { o.Isolation = sandbox.ModeUser }},
		{"no wrap", "needs the command", func(o *LocalOptions) { o.Isolation = sandbox.ModeWrap }},
		{"unknown", "not sandbox, user, wrap or none", func(o *LocalOptions) { o.Isolation = "chroot" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := base
			c.change(&o)
			if _, err := NewLocal(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
	t.Run("no bubblewrap", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		o := base
		o.Isolation = ""
		if _, err := NewLocal(t.Context(), o); err == nil || !strings.Contains(err.Error(), "install the package bubblewrap") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no namespaces", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // another user executes it
			t.Fatal(err)
		}
		runtest.MustWrite(t, filepath.Join(dir, "bwrap"), "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
		must.Succeed(t, os.Chmod(filepath.Join(dir, "bwrap"), 0o755))
		t.Setenv("PATH", dir+":/usr/bin:/bin")
		o := base
		o.Isolation = ""
		if _, err := NewLocal(t.Context(), o); err == nil || !strings.Contains(err.Error(), "unprivileged user namespaces") {
			t.Errorf("got %v", err)
		}
	})
}

// TestLocalEnded: after Ended, one Observe is enough to see the end.
func TestLocalEnded(t *testing.T) {
	l := newLocal(t, nil)
	s := l.spec(t, stubOrder{Tool: "until [ -e go ]; do sleep 0.02; done", Nonce: "nonce"})
	h := l.mustStart(t, s)
	ended := l.Ended(s.Ref)
	if ended == nil {
		t.Fatal("nobody hears of the end of an attempt that was started here")
	}
	runtest.MustAppear(t, filepath.Join(l.scratch(s.Ref), "tool.json"))
	mustGoOn(t, l, s)
	<-ended
	if st, err := l.Observe(t.Context(), s, h); err != nil || st.State != run.Ended {
		t.Errorf("it is %+v, %v, want %s", st, err, run.Ended)
	}
	runtest.Await(t, "that nothing is kept of it", func() bool { return l.Ended(s.Ref) == nil })
}
