// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/text"
)

// defaultProcesses bounds a run's processes and threads; many providers have several hundred.
const defaultProcesses = 4096

// isolation returns the isolation that all attempts share.
func (o *LocalOptions) isolation() (sandbox.Isolation, error) {
	i := sandbox.Isolation{
		Mode: cmp.Or(o.Isolation, sandbox.ModeSandbox), Show: o.Show, Hide: []string{o.Storage},
		Processes: cmp.Or(o.Processes, defaultProcesses),
	}
	root := os.Geteuid() == 0
	switch i.Mode {
	case sandbox.ModeSandbox:
		file, err := exec.LookPath("bwrap")
		if err != nil {
			return i, errors.New("isolation = \"sandbox\" requires bubblewrap, but bwrap was not found\nhint: install the package bubblewrap, or set another isolation: user, wrap or none")
		}
		if i.Bwrap, err = filepath.Abs(file); err != nil {
			return i, err
		}
		if root {
			i.UID = nobody
			i.GID = nobody
		}
		if strings.HasPrefix(filepath.Clean(o.Storage)+"/", sandbox.Mount+"/") {
			return i, fmt.Errorf("the storage folder %s is in %s, which is reserved for the sandbox\nhint: choose another storage folder", o.Storage, sandbox.Mount)
		}
	case sandbox.ModeUser:
		if !root {
			return i, errors.New("isolation = \"user\" needs a server that runs as root: only root can switch users\nhint: isolation = \"sandbox\" needs no root")
		}
		if len(o.Users) == 0 {
			return i, errors.New("isolation = \"user\" requires users, one for each concurrent run")
		}
		for n, u := range o.Users {
			if u.UID <= 0 || slices.ContainsFunc(o.Users[:n], func(other User) bool { return other.UID == u.UID }) {
				return i, fmt.Errorf("isolation = \"user\" requires distinct users other than root, not %d", u.UID)
			}
		}
	case sandbox.ModeWrap:
		if len(o.Wrap) == 0 {
			return i, errors.New("isolation = \"wrap\" needs the command in wrap")
		}
		file, err := findProgram(o.Wrap[0])
		if err != nil {
			return i, err
		}
		i.Wrap = append([]string{file}, o.Wrap[1:]...)
	case sandbox.ModeNone:
	default:
		return i, fmt.Errorf("the isolation %q is not sandbox, user, wrap or none", i.Mode)
	}
	if i.Mode != sandbox.ModeSandbox && i.Mode != sandbox.ModeUser {
		i.Processes = 0 // all processes of the server's user would count
	}
	for _, name := range slices.Concat(certificateFiles(o.environment()), []string{o.Okara, sandbox.Resolve(o.Program)}) {
		if !slices.Contains(i.Show, name) {
			i.Show = append(slices.Clip(i.Show), name)
		}
	}
	return i, nil
}

// toolVersion matches the first line of `tofu version` and `terraform version`.
var toolVersion = text.Pattern(`(?m)^(OpenTofu|Terraform) v([0-9]\S*)`)

// oldestTool is the first release of both tools with use_lockfile in backend s3, or a prerelease.
const oldestTool = "1.10.0-0"

// checkTime bounds the version check: with a cold disk on a busy machine.
const checkTime = 2 * time.Minute

// checkTool asks the tool for its version, isolated like a run: errors appear now.
func (l *Local) checkTool(ctx context.Context) (err error) {
	dir, done, err := files.TempDir(l.runsFolder())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := makeFolders(l.folderMode(), filepath.Dir(dir), dir); err != nil {
		return err
	}
	o := &sandbox.Order{Program: l.o.Program, Okara: l.o.Okara, Scratch: dir, Isolation: l.isolation, Ask: []string{"version"}}
	if l.isolation.Mode == sandbox.ModeUser {
		o.Isolation.UID = l.o.Users[0].UID
		o.Isolation.GID = l.o.Users[0].GID
		if name, ok := canReach(filepath.Join(dir, "any"), o.Isolation.UID); !ok {
			return fmt.Errorf("user %d cannot reach %s, where runs are\nhint: chmod o+x %s, or choose another storage folder", o.Isolation.UID, name, name)
		}
	}
	output, err := l.askChild(ctx, o)
	if err != nil {
		return l.explain(err, output)
	}
	m := toolVersion().FindStringSubmatch(output)
	if m == nil {
		return fmt.Errorf("%s is not OpenTofu or Terraform", l.o.Program)
	}
	version, err := addr.ParseVersion(m[2])
	if err != nil {
		return fmt.Errorf("version of %s: %w", l.o.Program, err)
	}
	oldest, err := addr.ParseVersion(oldestTool)
	if err != nil {
		return err
	}
	if version.Compare(oldest) < 0 {
		return fmt.Errorf("%s is version %s, which cannot lock a state in a registry\nhint: install 1.10 or newer, or set another program: executor \"local\" { program = … }", l.o.Program, version)
	}
	newest := map[string]string{"OpenTofu": "1.13.0-0", "Terraform": "1.17.0-0"}[m[1]] // what these refuse is not known yet
	if unknown, err := addr.ParseVersion(newest); err == nil && version.Compare(unknown) < 0 {
		l.tool = strings.ToLower(m[1])
	}
	return nil
}

// Tool is opentofu or terraform; "" for a release so new that what it refuses is not known.
func (l *Local) Tool() string { return l.tool }

// askChild starts a child that runs the tool, and returns the output of both.
func (l *Local) askChild(ctx context.Context, o *sandbox.Order) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	b, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	in, report, err := os.Pipe()
	if err != nil {
		return "", err
	}
	answer, out, err := os.Pipe()
	if err != nil {
		return "", errors.Join(err, in.Close(), report.Close())
	}
	defer answer.Close()
	pid, err := l.startProcess(o, in, out, out)
	err = errors.Join(err, in.Close(), out.Close())
	if err == nil {
		err = writeBytes(report, b) // fits into a pipe
	}
	_ = report.Close() // if writing failed, the error is reported below
	if pid > 0 {
		if p, perr := sandbox.Identify(pid); perr == nil {
			defer context.AfterFunc(ctx, func() { _ = p.Signal(syscall.SIGKILL) })()
		}
	}
	output, rerr := io.ReadAll(io.LimitReader(answer, maxAnswer))
	reply, ok := strings.CutSuffix(string(output), sandbox.Answered)
	if err = cmp.Or(err, ctx.Err(), rerr); err == nil && !ok {
		err = errors.New("no response")
	}
	return reply, err
}

// maxAnswer bounds the answer to a question, in bytes.
const maxAnswer = 64 << 10

// explain returns why the tool does not run, with a hint.
func (l *Local) explain(err error, output string) error {
	line, _, _ := strings.Cut(strings.TrimSpace(output), "\n")
	failed := fmt.Errorf("running %s in isolation %q: %w: %s", l.o.Program, l.isolation.Mode, err, text.Excerpt(line))
	if strings.HasPrefix(line, "bwrap: Unknown option") {
		return fmt.Errorf("%w\nhint: install bubblewrap 0.8 or newer", failed)
	}
	if strings.HasPrefix(line, "bwrap: Can't") {
		return fmt.Errorf("%w\nhint: the user of a run must be able to enter and read what the executor shows; if the server runs as root, that user is %d", failed, nobody)
	}
	if l.isolation.Mode == sandbox.ModeSandbox && (strings.HasPrefix(line, "bwrap:") || errors.Is(err, errNamespace)) {
		return fmt.Errorf("%w\nhint: this machine does not let okara and bubblewrap create namespaces: allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces), or set another isolation: user, wrap or none", failed)
	}
	return failed
}

// canReach reports whether a user may enter all folders above a name, or the first that it may not.
func canReach(name string, uid int) (string, bool) {
	dir := filepath.Dir(name)
	if dir == filepath.Dir(dir) {
		return "", true // the root
	}
	if first, ok := canReach(dir, uid); !ok {
		return first, false
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 && !ownedBy(info, uid) {
		return dir, false
	}
	return "", true
}

func certificateFiles(env []string) []string {
	var names []string
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if name != "SSL_CERT_FILE" && name != "SSL_CERT_DIR" {
			continue
		}
		for _, file := range filepath.SplitList(value) {
			if filepath.IsAbs(file) {
				names = append(names, file)
			}
		}
	}
	return names
}

// nobody is the sandbox's user and group if the server runs as root, which could write to /proc.
const nobody = 65534
