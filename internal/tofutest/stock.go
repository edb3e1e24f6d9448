// SPDX-License-Identifier: Apache-2.0

package tofutest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// Stock is an unmodified tool on this machine: the reference for what [Client] assumes about it.
type Stock struct {
	Name string // "tofu" or "terraform"
	Path string
	Home string // the tool's settings folder; "": an empty one for each run
}

// StockTools returns tofu, and terraform if it is installed: its licence forbids building it here.
func StockTools(t testing.TB) []Stock {
	t.Helper()
	tools := []Stock{{Name: "tofu", Path: Tofu(t)}}
	if path := Find("terraform"); path != "" {
		tools = append(tools, Stock{Name: "terraform", Path: path})
	}
	return tools
}

// Platform returns the platform of this machine in the notation of packages.
func Platform() string { return runtime.GOOS + "_" + runtime.GOARCH }

// UseProvider returns a root module that requires one provider.
func UseProvider(source string) map[string]string {
	return map[string]string{"main.tf": fmt.Sprintf("terraform {\n  required_providers {\n    it = {\n      source = %q\n    }\n  }\n}\n", source)}
}

// Run runs the tool in a folder with this CLI configuration and returns its output. env
// is added to the environment.
func (s Stock) Run(t testing.TB, dir, config string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := s.stockCommand(t, config, env, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s Stock) stockCommand(t testing.TB, config string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	if s.Home == "" {
		s.Home = t.TempDir()
	}
	file := ""
	if config != "" { // with its own configuration file the tool does not read stored logins
		file = filepath.Join(s.Home, "cli.tfrc")
		must.Succeed(t, os.WriteFile(file, []byte(config), 0o600))
	}
	cmd := exec.Command(s.Path, args...)
	cmd.Env = append(os.Environ(), "HOME="+s.Home, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE="+file)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// Init runs init on a root module with these files in a new folder, and also returns the folder.
func (s Stock) Init(t testing.TB, files map[string]string, config string, env ...string) (dir, out string, err error) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	out, err = s.Run(t, dir, config, env, "init", "-no-color", "-input=false")
	return dir, out, err
}

// Login runs login for a host as on a machine without a browser: browse gets the address
// that the tool prints, and does what a browser would do.
func (s Stock) Login(t testing.TB, host string, env []string, browse func(url string)) (out string, err error) {
	t.Helper()
	cmd := s.stockCommand(t, "", append(env, "PATH="), "login", "-no-color", host)
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader("yes\n")
	r, w := io.Pipe()
	cmd.Stdout = w
	cmd.Stderr = w
	must.Succeed(t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_ = w.Close() // never fails
		ended <- err
	}()
	var all strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		all.WriteString(line + "\n")
		if strings.HasPrefix(line, "http") && strings.Contains(line, "code_challenge=") {
			browse(line)
		}
	}
	return all.String(), <-ended
}
