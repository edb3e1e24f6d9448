// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/seed-141914ff/okara/internal/addr"
)

// Tool is a tofu or terraform.
type Tool struct {
	Path      string
	Terraform bool   // it reads no .tofu files
	CacheDir  string // remembers which programs are new enough; "": nothing does
}

// RunTool is Run with a command line of the tool, which names the root module and
// the settings of its backend. A tool that cannot lock is refused if the module
// has state to lock. It sets Command, Config and LockWait of o.
func RunTool(ctx context.Context, tool Tool, args []string, o Options) (Result, error) {
	line := parseCommandLine(args)
	o.Config, o.LockWait = Config{Dir: line.Dir}, line.LockTimeout
	if !line.local() {
		var err error
		if o.Config, err = Read(line.Dir, ReadOptions{
			Getenv: o.Getenv, BackendConfig: line.BackendConfig, Reconfigure: line.Reconfigure, Terraform: tool.Terraform,
		}); err != nil {
			return Result{}, err
		}
	}
	if o.Config.Declared {
		args = line.Rest
	}
	if o.Config.Used() {
		if err := checkTool(ctx, tool.Path, tool.CacheDir); err != nil {
			return Result{}, err
		}
	}
	o.Command = append([]string{tool.Path}, args...)
	res, err := Run(ctx, o)
	if err == nil && res.Code == 0 && o.Config.Declared && line.Command == "init" {
		err = saveSettings(line.Dir, o.Getenv, o.Config.Settings)
	}
	return res, err
}

// RunIn is Run with the configuration of the root module in dir.
func RunIn(ctx context.Context, dir string, command []string, o Options) (res Result, err error) {
	if o.Config, err = Read(dir, ReadOptions{Getenv: o.Getenv}); err != nil {
		return Result{}, err
	}
	o.Command = command
	return Run(ctx, o)
}

// oldestTool is the first release of both tools whose s3 backend has
// use_lockfile; without it nothing would take a lock. Its prereleases count.
const oldestTool = "1.10.0-0"

// checkTool refuses a tofu or terraform that cannot lock. A version that was
// good is remembered for that file in cacheDir ("" for not at all), since
// asking takes as long as a small plan.
func checkTool(ctx context.Context, path, cacheDir string) error {
	mark := toolMark(path, cacheDir)
	if _, err := os.Stat(mark); mark != "" && err == nil {
		return nil
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "version", "-json")
	cmd.Dir = os.TempDir() // nothing there to read or to complain about
	// A broken CLI configuration puts warnings before the JSON; the run itself
	// shows them.
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull)
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("asking %s for its version: %w", path, err)
	}
	var answer struct {
		Version string `json:"terraform_version"`
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return fmt.Errorf("asking %s for its version: %w", path, err)
	}
	version, err := addr.ParseVersion(answer.Version)
	if err != nil {
		return fmt.Errorf("asking %s for its version: %w", path, err)
	}
	oldest, err := addr.ParseVersion(oldestTool)
	if err != nil {
		return err
	}
	if version.Compare(oldest) < 0 {
		return fmt.Errorf("%s is version %s, which cannot lock a state in a registry: okara needs use_lockfile, which OpenTofu and Terraform have since 1.10\nhint: install 1.10 or newer, or name another program with OKARA_TOFU or OKARA_TERRAFORM", path, version)
	}
	if mark != "" && os.MkdirAll(filepath.Dir(mark), 0o755) == nil {
		// Losing the mark costs one question more, so its errors are none.
		_ = os.WriteFile(mark, []byte(version.String()+"\n"), 0o644)
	}
	return nil
}

// toolMark names the file that says that a program was new enough: by path,
// size and time, so that an update is asked again.
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
