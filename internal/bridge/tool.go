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

// oldestTool is the first release of both tools whose s3 backend has
// use_lockfile; without it nothing would take a lock. Its prereleases count.
const oldestTool = "1.10.0-0"

// CheckTool refuses a tofu or terraform that cannot lock. A version that was
// good is remembered for that file in cacheDir ("" for not at all), since
// asking takes as long as a small plan.
func CheckTool(ctx context.Context, path, cacheDir string) error {
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
