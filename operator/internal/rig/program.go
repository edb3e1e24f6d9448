// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func builtProgram(name string) (string, error) {
	built, err := filepath.Glob(filepath.Join(Root(), ".cache", "kube", "*", "*", name))
	if err == nil && len(built) == 0 {
		err = &missingError{name}
	}
	if err != nil {
		return "", err
	}
	return built[len(built)-1], nil
}

// Programs returns the folder of a program that make built, or skips the test.
func Programs(t testing.TB, name string) string {
	t.Helper()
	path, err := builtProgram(name)
	checkErr(t, err)
	return filepath.Dir(path)
}

// Root returns the folder of the repository, or "" outside of one.
func Root() string {
	for dir, err := os.Getwd(); err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".ci", "run")); err == nil {
			return dir
		}
	}
	return ""
}

// Process is a running program.
type Process struct {
	path  string
	env   []string // nil: the environment of the tests
	args  []string
	log   string // file with its output
	ready func(*Process) error

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// Launch starts a program that logs below dir. A nil environment means that of the tests.
func Launch(dir, path string, env []string, args ...string) (*Process, error) {
	p := &Process{path: path, env: env, args: args, log: filepath.Join(dir, filepath.Base(path)+".log")}
	return p, p.start()
}

// start starts the program, or restarts it after a kill.
func (p *Process) start() error {
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	ended := make(chan struct{})
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.Env = p.env
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", filepath.Base(p.path), err)
	}
	p.cmd = cmd
	p.ended = ended
	go func() {
		_ = cmd.Wait() // the log shows how it ended
		close(ended)
	}()
	return nil
}

// Kill ends the program at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
}

// wait polls until done returns true or the program has ended.
func (p *Process) wait(done func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for !done() {
		select {
		case <-p.ended:
			return fmt.Errorf("%s has ended: %s", filepath.Base(p.path), p.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %s", filepath.Base(p.path), p.LogTail())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// AwaitOK waits until the program answers a request with 200.
func (p *Process) AwaitOK(client *http.Client, url string) error {
	return p.wait(func() bool { return answersOK(client, url) })
}

// answersTLS waits for 200 at a path, reading the program's certificate anew each time.
func (p *Process) answersTLS(config *rest.Config, path string) error {
	return p.wait(func() bool {
		if b, err := os.ReadFile(config.CAFile); err != nil || len(b) == 0 {
			return false
		}
		client, err := rest.HTTPClientFor(config)
		return err == nil && answersOK(client, config.Host+path)
	})
}

// answersOK tells whether a GET of url is answered with 200 within ten seconds.
func answersOK(client *http.Client, url string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// LogTail returns the end of the log.
func (p *Process) LogTail() string {
	const limit = 4 << 10
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-limit):]))
}
