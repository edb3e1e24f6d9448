// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/modulelock"
)

// Tool is a tofu or terraform program.
type Tool struct {
	Path      string
	Terraform bool   // it reads no .tofu files
	CacheDir  string // remembers which programs are new enough; "": not remembered
}

// RunTool is Run with a tool's command line. A tool that cannot lock is refused if there is state
// to lock. It sets Command, Config, Environ and LockWait of o.
func RunTool(ctx context.Context, tool Tool, args []string, o Options) (Result, error) {
	alreadyAsking := o.Getenv(askingVariable)
	if err := checkLoop(tool, alreadyAsking, o.Stdout); err != nil {
		return Result{}, err
	}
	line := parseCommandLine(args)
	words, environ, err := environmentArguments(line, o.Getenv)
	if err != nil {
		return Result{}, err
	}
	own := line.Rest // without -backend-config
	help := slices.Contains(args, "-help") || slices.Contains(args, "-h")
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	line = parseCommandLine(withEnvironment(args, words, line.Command))
	o.Config = Config{Dir: line.Dir}
	o.LockWait = line.LockTimeout
	// Others read a configuration or a state.
	if !slices.Contains([]string{"", "fmt", "version", "login", "logout"}, line.Command) {
		evaluate := refuseReferences
		if !tool.Terraform {
			e := evaluator{tool: tool, dir: line.Dir, flags: line.Variables, getenv: o.Getenv}
			evaluate = func(m module) (map[string]cty.Value, error) { return e.evaluateBlock(ctx, m) }
		}
		// A backend block without values is enough for these.
		if slices.Contains([]string{"validate", "get"}, line.Command) || line.Command == "init" && line.NoBackend {
			evaluate = leaveOut
		}
		if o.Config, err = Read(line.Dir, ReadOptions{
			Getenv: o.Getenv, BackendConfig: line.BackendConfig, Reconfigure: line.Reconfigure, Terraform: tool.Terraform,
			evaluate: evaluate,
		}); err != nil {
			return Result{}, err
		}
	}
	if o.Config.Declared {
		args = own
		o.Environ = environ
	}
	o.Environ = append(o.Environ, withoutShims(o.Getenv)...)
	dataDir := backendblock.DataDir(line.Dir, o.Getenv)
	if line.Command != "init" {
		if err := checkEvaluated(o.Config, dataDir); err != nil {
			return Result{}, err
		}
	}
	if usesModules(line.Command) && !help {
		if err := modulelock.Check(line.Dir, dataDir); err != nil {
			return Result{}, err
		}
	}
	if alreadyAsking == "" {
		if err := checkTool(ctx, tool, o.Config.Used()); err != nil {
			return Result{}, err
		}
	}
	o.Command = append([]string{tool.Path}, args...)
	o.applies = line.Command == "apply" && !line.Part && !slices.Contains(args, "-destroy")
	o.part = line.Part
	if o.plan = line.Plan; o.plan != "" && !filepath.IsAbs(o.plan) {
		o.plan = filepath.Join(line.Dir, o.plan)
	}
	if line.Command == "init" && o.Config.Declared && !o.Unchanged && runtime.GOOS != "windows" {
		o.Stdout = NameOCI{o.Stdout}
	}
	initialized := func(int) {}
	if line.Command == "init" && o.Init != nil {
		if initialized, err = o.Init(line.Dir, dataDir); err != nil {
			return Result{}, err
		}
	}
	release, selecting := func() error { return nil }, false
	var said marks
	if installsModules(line.Command) && !line.Upgrade && !help {
		if release, selecting, err = o.selectModules(ctx, line.Dir, tool.Terraform, &said); err != nil {
			return Result{}, err
		}
	}
	res, err := Run(ctx, o)
	err = errors.Join(err, release())
	if selecting && res.Code != 0 {
		o.Warn("if init found no such version: it could select only those in " + modulelock.Name + "; for another one run `okara lock --modules --upgrade=CALL` before it, or init -upgrade; if it was withdrawn, `okara list ADDRESS` has the reason")
	}
	if err == nil {
		initialized(res.Code)
	}
	if err == nil && res.Code == 0 && selecting {
		err = said.save(dataDir)
	}
	if err == nil && res.Code == 0 && o.Config.Declared && line.Command == "init" {
		err = errors.Join(saveSettings(line.Dir, o.Getenv, o.Config.Settings), saveEvaluated(o.Config, dataDir))
	}
	if err == nil && usesModules(line.Command) && !help {
		if err = modulelock.Check(line.Dir, dataDir); err != nil {
			err = fmt.Errorf("modules changed while %s ran, which may have read others: %w", line.Command, err)
		}
	}
	if err == nil && res.Code == 0 && installsModules(line.Command) && !help {
		err = modulelock.Check(line.Dir, dataDir)
		if m, ok := errors.AsType[*modulelock.Mismatch](err); ok && (line.Upgrade || m.New) {
			o.Warn(m.Error()) // what evaluates is refused until they are locked
			err = nil
		}
	}
	return res, err
}

// selectModules makes the tool select the versions of the lock of modules, if there is one. Where that
// cannot be, the lock is only compared afterwards.
func (o *Options) selectModules(ctx context.Context, dir string, terraform bool, said *marks) (release func() error, selecting bool, err error) {
	release = func() error { return nil }
	lock, err := modulelock.Read(dir)
	if lock == nil || err != nil {
		return release, false, err
	}
	temp, remove, err := files.TempDir("")
	if err != nil {
		return release, false, err
	}
	stop := func() error { return nil }
	var skipped []error
	config, err := modulelock.ReadConfig(credentials.CLIFiles(o.Getenv, terraform))
	if err == nil {
		config, skipped, stop, err = lock.Select(ctx, nil, config, said.add)
	}
	if err != nil {
		skipped = append(skipped, err)
	}
	for _, err := range skipped {
		o.Warn(fmt.Sprintf("locked module versions are not enforced, the tool selects versions itself: %v", err))
	}
	if selecting = err == nil && config != nil; selecting {
		name := filepath.Join(temp, "modules.tfrc")
		o.Environ = append(o.Environ, "TF_CLI_CONFIG_FILE="+name)
		err = os.WriteFile(name, config, 0o600)
	} else {
		err = nil
	}
	return func() error { return errors.Join(stop(), remove()) }, selecting, err
}

// installsModules reports whether a command of the tool installs modules.
func installsModules(command string) bool { return command == "init" || command == "get" }

// usesModules reports whether a command of the tool evaluates a configuration with its modules.
func usesModules(command string) bool {
	return slices.Contains([]string{"plan", "apply", "destroy", "refresh", "import", "console", "graph", "validate", "test", "query", "providers"}, command)
}

// NameOCI passes on the output of init with the backend's name in the user's file. The tools print
// colours and ask their questions without a terminal too; only on Windows they prepare it for colours
// themselves. A line that is cut between two reads, or is JSON, stays as it is.
type NameOCI struct{ io.Writer }

func (w NameOCI) Write(p []byte) (int, error) {
	r := strings.NewReplacer(`configured the backend "s3"!`, `configured the backend "oci"!`, `newly configured "s3" backend`, `newly configured "oci" backend`, ` to "s3".`, ` to "oci".`)
	if _, err := r.WriteString(w.Writer, string(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// RunShimmed runs a command with the folder shims first on PATH, where okara has the tools' names:
// each call is a [RunTool]. A signal goes to all it started. It sets Environ of o.
func RunShimmed(ctx context.Context, shims string, command []string, o Options) (Result, error) {
	path := shims + string(os.PathListSeparator) + o.Getenv("PATH")
	o.Command = command
	o.Environ = []string{"PATH=" + path, shimsVariable + "=" + shims}
	o.group = true
	code, err := o.runCommand(ctx, "", nil)
	return Result{Code: code}, err
}

// shimsVariable names the folder with the shims, which must not be on the tool's own PATH.
const shimsVariable = "OKARA_SHIMS"

// withoutShims returns the environment for a tool that is called by a shim.
func withoutShims(getenv func(string) string) []string {
	shims := getenv(shimsVariable)
	if shims == "" {
		return nil
	}
	dirs := slices.DeleteFunc(filepath.SplitList(getenv("PATH")), func(dir string) bool { return dir == shims })
	return []string{"PATH=" + strings.Join(dirs, string(os.PathListSeparator)), shimsVariable + "="}
}

// oldestTool is the first release of both tools with use_lockfile; its prereleases count.
const oldestTool = "1.10.0-0"

// checkTool refuses okara itself and, with a state, tools that cannot lock. A good file is
// remembered: asking takes as long as a small plan.
func checkTool(ctx context.Context, t Tool, locks bool) error {
	mark := toolMark(t.Path, t.CacheDir)
	if _, err := os.Stat(mark); mark != "" && err == nil {
		return nil
	}
	answer, err := t.askVersion(ctx)
	if err != nil && (locks || answer.Loop != "") {
		return err
	}
	version, err := addr.ParseVersion(answer.Version)
	if err != nil && locks {
		return fmt.Errorf("getting the version of %s: %w", t.Path, err)
	}
	if err != nil {
		return nil // the command itself reports the error
	}
	oldest, err := addr.ParseVersion(oldestTool)
	if err != nil {
		return err
	}
	if version.Compare(oldest) < 0 {
		if !locks {
			return nil
		}
		return fmt.Errorf("%s is version %s, which cannot lock a state in a registry: okara requires use_lockfile, which OpenTofu and Terraform have since 1.10\nhint: install 1.10 or newer, or set another program with %s", t.Path, version, t.programVariable())
	}
	if mark != "" && os.MkdirAll(filepath.Dir(mark), 0o755) == nil {
		// Without the mark the tool is only asked again, so errors are ignored.
		_ = os.WriteFile(mark, []byte(version.String()+"\n"), 0o644)
	}
	return nil
}

// toolMark records a program that is new enough, by path, size and time.
func toolMark(path, cacheDir string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || cacheDir == "" {
		return ""
	}
	info, err := os.Stat(real)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%d", real, info.Size(), info.ModTime().UnixNano()))
	return filepath.Join(cacheDir, "okara", "tool-"+hex.EncodeToString(sum[:8]))
}
