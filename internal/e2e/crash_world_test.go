// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Secrets that a crashWorld plants: nothing that it writes or answers may contain one.
const (
	plantedStateKey   = "smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="
	plantedCredential = "planted-in-a-credential"
	plantedInput      = "planted-in-an-input"
	crashToken        = "oks_anna_0123456789abcdefghij"
)

// crashWorld is a server whose runs, and registry, stop at gates: a file shuts one, and a process
// that reaches it leaves another and waits.
type crashWorld struct {
	t    *testing.T
	set  tools
	dir  string
	tool string // started by the server: the real tool, behind a gate

	okara    string // a copy, whose processes are recognized by its name
	registry string // with the gates before it
	server   *process
	url      string
	answers  lockedBuffer // all answers of the API
	logs     []*lockedBuffer
}

func newCrashWorld(t *testing.T, tool string) *crashWorld {
	t.Helper()
	set := must(findTools())(t)
	w := &crashWorld{t: t, set: set, dir: t.TempDir()}
	w.okara, w.tool = w.path("okara"), w.path("tofu")
	succeed(t, errors.Join(copyProgram(set.okara, w.okara), os.Mkdir(w.path("templates"), 0o700)))
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = apply ]; then\ncase=$(sed -n 's/^# case //p' main.tf)\n%s\nfi\nexec %q \"$@\"\n", gateScript(w.dir, "$case", "between"), tool)
	writeFile(t, w.tool, script)
	succeed(t, os.Chmod(w.tool, 0o700))
	t.Cleanup(func() {
		for _, pid := range w.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // of a test that failed
		}
	})
	w.startRegistry()
	writeFile(t, w.path("tokens"), crashToken+" use:instance:crash/* admin:instance:**\n")
	writeFile(t, w.path("okara.hcl"), fmt.Sprintf(`
registry  = %q
storage   = %q
audit_log = %q
instances {
  templates = %q
  runs      = 64
  rate      = 6000
}
executor "local" {
  program   = %q
  isolation = "none"
}
credential "planted" {
  env_from = ["PLANTED"]
}
`, w.registry, w.path("storage"), w.path("audit"), w.path("templates"), w.tool))
	return w
}

func (w *crashWorld) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

func copyProgram(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o700)
}

// startRegistry starts a registry behind a proxy that recognizes the requests of runs.
func (w *crashWorld) startRegistry() {
	cmd := must(w.set.registryCommand(w.path("registry"), true))(w.t)
	cmd.Dir = w.dir
	registry, addr := mustBoth(start(cmd))(w.t)
	w.t.Cleanup(registry.kill)
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: addr}); r.Out.Host = r.In.Host },
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) },
	}
	seen := &runRequests{done: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/gate/{case}/{step}", w.answerTool)
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		name, step := seen.step(r)
		if step != "" && !w.pass(r.Context(), name, step) {
			panic(http.ErrAbortHandler) // the client is dead
		}
		proxy.ServeHTTP(rw, r)
		seen.answered(name, step)
	})
	front := httptest.NewServer(mux)
	w.t.Cleanup(front.Close)
	w.registry = strings.TrimPrefix(front.URL, "http://") + "/okara"
}

// gateScript returns the shell commands of a gate.
func gateScript(dir, name, step string) string {
	gate := fmt.Sprintf("%s/%s.%s", dir, name, step)
	return fmt.Sprintf(`if [ -e "%[1]s.shut" ]; then : > "%[1]s.here"; while [ -e "%[1]s.shut" ]; do sleep 0.05; done; fi`, gate)
}

func (w *crashWorld) gate(name, step, what string) string {
	return w.path(name + "." + step + "." + what)
}

// pass waits at a gate while it is shut; false: ctx ended.
func (w *crashWorld) pass(ctx context.Context, name, step string) bool {
	for first := true; exists(w.gate(name, step, "shut")); first = false {
		if first && os.WriteFile(w.gate(name, step, "here"), nil, 0o600) != nil {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return ctx.Err() == nil
}

func (w *crashWorld) shut(name, step string) error {
	return os.WriteFile(w.gate(name, step, "shut"), nil, 0o600)
}
func (w *crashWorld) open(name, step string) error { return os.Remove(w.gate(name, step, "shut")) }

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// crashLimit allows for busy machines.
const crashLimit = 15 * time.Minute

func until(what string, done func() (bool, error)) error {
	for end := time.Now().Add(crashLimit); ; time.Sleep(50 * time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return errors.New("it did not come: " + what)
		}
	}
}

// start starts the server, also again.
func (w *crashWorld) start() error {
	cmd := exec.Command(w.okara, "serve", "--listen", "127.0.0.1:0", "--config", w.path("okara.hcl"), "--token-file", w.path("tokens"))
	cmd.Dir = w.dir
	cmd.Env = []string{
		"HOME=" + w.dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + w.dir, "OKARA_STATE_KEYS=base64key://" + plantedStateKey, "PLANTED=" + plantedCredential,
	}
	server, addr, err := start(cmd)
	if err != nil {
		return err
	}
	w.t.Cleanup(server.kill)
	w.server, w.url, w.logs = server, "http://"+addr, append(w.logs, server.log)
	return until("a leader", func() (bool, error) {
		status, _, err := w.call(http.MethodGet, "instances", "")
		return status == http.StatusOK, err
	})
}

// call makes an API request; 0: no answer.
func (w *crashWorld) call(method, path, body string) (int, []byte, error) {
	req, err := http.NewRequest(method, w.url+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+crashToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, nil // was killed
	}
	_, _ = w.answers.Write(b)
	return resp.StatusCode, b, nil
}

// okaraCommand runs a command of okara beside the server.
func (w *crashWorld) okaraCommand(args ...string) ([]byte, error) {
	cmd := exec.Command(w.set.okara, args...)
	cmd.Dir = w.dir
	cmd.Env = []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + w.dir, "OKARA_REGISTRY=" + w.registry, "OKARA_STATE_KEYS=base64key://" + plantedStateKey}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("okara %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return b, nil
}

// processes returns all live processes that this world started.
func (w *crashWorld) processes() []int {
	var list []int
	names, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		line, lerr := os.ReadFile(filepath.Join(name, "cmdline"))
		if err == nil && lerr == nil && pid != os.Getpid() && bytes.Contains(line, []byte(w.dir+"/")) && !bytes.Contains(line, []byte(w.set.registry)) {
			list = append(list, pid)
		}
	}
	return list
}

// pid reads a process ID from the folder of a run.
func (w *crashWorld) pid(id, file string) (int, error) {
	names, err := filepath.Glob(w.path("storage", "runs", id, "*-1", file))
	if err != nil || len(names) != 1 {
		return 0, fmt.Errorf("%s of %s: %v, %v", file, id, names, err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		return 0, err
	}
	var p struct{ PID int }
	if err := json.Unmarshal(b, &p); err != nil || p.PID <= 1 {
		return 0, fmt.Errorf("%s: %s: %v", names[0], b, err)
	}
	return p.PID, nil
}
