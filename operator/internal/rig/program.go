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
	"time"

	"k8s.io/client-go/rest"
)

// program finds a program that make has built.
func program(name string) (string, error) {
	built, err := filepath.Glob(filepath.Join(Root(), ".cache", "kube", "*", "*", name))
	if err == nil && len(built) == 0 {
		err = &missingError{name}
	}
	if err != nil {
		return "", err
	}
	return built[len(built)-1], nil
}

// Root is the folder of the repository, "" outside of one.
func Root() string {
	for dir, err := os.Getwd(); err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".ci", "run")); err == nil {
			return dir
		}
	}
	return ""
}

// process is a program that runs.
type process struct {
	cmd   *exec.Cmd
	log   string        // file of what it writes
	ended chan struct{} // closed when it has
}

// launch starts a program that writes its log below dir. Without an environment it has
// that of the tests.
func launch(dir, path string, env []string, args ...string) (*process, error) {
	name := filepath.Base(path)
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(path, args...), log: log.Name(), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env, p.cmd.SysProcAttr = env, dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.ended)
	}()
	return p, nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
}

// wait asks until done, or until the program has ended.
func (p *process) wait(done func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for !done() {
		select {
		case <-p.ended:
			return fmt.Errorf("%s has ended: %s", filepath.Base(p.cmd.Path), p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %s", filepath.Base(p.cmd.Path), p.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// answers waits until the program answers a request with 200.
func (p *process) answers(client *http.Client, url string) error {
	return p.wait(func() bool {
		resp, err := client.Get(url)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// answersTLS waits until the program answers a path with 200. It makes the certificate
// that the config names itself.
func (p *process) answersTLS(config *rest.Config, path string) error {
	if err := p.wait(func() bool { _, err := os.Stat(config.CAFile); return err == nil }); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	return p.answers(client, config.Host+path)
}

// tail is the end of the log.
func (p *process) tail() string {
	const most = 4 << 10
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-most):]))
}
