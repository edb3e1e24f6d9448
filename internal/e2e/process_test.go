// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// startLimit bounds how long a server may take to report its address.
const startLimit = 5 * time.Minute

// processesKey is the key under which a script stores its servers.
type processesKey struct{}

// processes are the servers of one script, by the name of their variable.
type processes struct {
	byName map[string]*process
}

func (p *processes) killAll() {
	for _, one := range p.byName {
		one.kill()
	}
}

// process is a server that prints its address.
type process struct {
	cmd  *exec.Cmd
	done chan error // gets the result of Wait once
	log  *lockedBuffer
}

// listening matches the address in okara's first lines and in distribution's log.
var listening = regexp.MustCompile(`(?:listening on |https?://)([0-9a-z.\[\]:]+:[0-9]+)`)

// start runs a server and waits until it reports its address.
func start(cmd *exec.Cmd) (*process, string, error) {
	r, w := io.Pipe()
	p := &process{cmd: cmd, done: make(chan error, 1), log: &lockedBuffer{}}
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	go func() {
		err := cmd.Wait()
		w.Close()
		p.done <- err
	}()
	addr := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			fmt.Fprintln(p.log, lines.Text())
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case addr <- m[1]:
				default:
				}
			}
		}
		_, _ = io.Copy(p.log, r)
		close(addr)
	}()
	select {
	case a, ok := <-addr:
		if !ok {
			return nil, "", fmt.Errorf("%s ended before it listened:\n%s", filepath.Base(cmd.Path), p.log)
		}
		return p, a, nil
	case <-time.After(startLimit):
		p.kill()
		return nil, "", fmt.Errorf("%s did not say where it listens:\n%s", filepath.Base(cmd.Path), p.log)
	}
}

// stop ends the process as a service manager does.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := <-p.done
	p.done <- err
	return err
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	err := <-p.done
	p.done <- err
}

// lockedBuffer is a buffer that a goroutine fills while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const registryConfig = `version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: %t}
  maintenance: {uploadpurging: {enabled: false}}
http: {addr: "127.0.0.1:0", secret: e2e, draintimeout: 5s}
`

// users is an htpasswd file: user ci, password "correct horse".
const users = "ci:$2a$04$EChrMMRbXYdlT/cqwSbhA.vAJaJm28Ep/YGoe4eW5ulIOP3jFKDkO\n"

// startRegistry implements the script command registry VAR [nodelete|htpasswd].
func (s tools) startRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: registry VAR [nodelete|htpasswd]")
	}
	kind := append(args, "")[1]
	cmd, err := s.registryCommand(ts.MkAbs(args[0]), kind != "nodelete")
	ts.Check(err)
	if kind == "htpasswd" {
		ts.Check(addUsers(ts.MkAbs(args[0])))
	}
	keep(ts, args[0], cmd)
}

// registryCommand returns the command of a distribution process that stores its data in dir.
func (s tools) registryCommand(dir string, deletes bool) (*exec.Cmd, error) {
	config := dir + ".yml"
	err := os.WriteFile(config, fmt.Appendf(nil, registryConfig, dir, deletes), 0o600)
	return exec.Command(s.registry, "serve", config), err
}

// runRegistry runs a separate registry for a test, which stores its data in dir.
func (s tools) runRegistry(t testing.TB, dir string) (host string) {
	t.Helper()
	cmd := must(s.registryCommand(filepath.Join(dir, "registry"), true))(t)
	server, host := mustBoth(start(cmd))(t)
	t.Cleanup(server.kill)
	return host
}

// addUsers makes the registry of dir require a password.
func addUsers(dir string) error {
	if err := os.WriteFile(dir+".htpasswd", []byte(users), 0o600); err != nil {
		return err
	}
	config, err := os.ReadFile(dir + ".yml")
	if err != nil {
		return err
	}
	config = fmt.Appendf(config, "auth:\n  htpasswd: {realm: e2e, path: %q}\n", dir+".htpasswd")
	return os.WriteFile(dir+".yml", config, 0o600)
}

// startOkara implements the script command serve VAR [args...].
func (s tools) startOkara(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve VAR [args...]")
	}
	scheme := "http://"
	cmd := exec.Command(s.okara, append([]string{"serve", "--listen", "127.0.0.1:0"}, args[1:]...)...)
	for _, a := range args {
		if a == "--tls-self-signed" || a == "--tls-cert" {
			scheme = "https://"
		}
	}
	addr := keep(ts, args[0], cmd)
	ts.Setenv(args[0]+"_URL", scheme+addr)
}

// keep starts a server for a script and stores it under the variable's name.
func keep(ts *testscript.TestScript, name string, cmd *exec.Cmd) string {
	cmd.Dir = ts.Getenv("WORK")
	for _, v := range []string{"HOME", "PATH", "TMPDIR", "XDG_DATA_HOME"} {
		cmd.Env = append(cmd.Env, v+"="+ts.Getenv(v))
	}
	p, addr, err := start(cmd)
	ts.Check(err)
	servers := ts.Value(processesKey{}).(*processes)
	if servers.byName == nil {
		servers.byName = map[string]*process{}
	}
	if old := servers.byName[name]; old != nil {
		old.kill()
	}
	servers.byName[name] = p
	ts.Setenv(name, addr)
	return addr
}

// halt implements the script command halt VAR. On SIGTERM a server must end without an error.
func halt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: halt VAR")
	}
	p := ts.Value(processesKey{}).(*processes).byName[args[0]]
	if p == nil {
		ts.Fatalf("no server %s", args[0])
	}
	if err := p.stop(); err != nil {
		ts.Fatalf("%s: %v\n%s", args[0], err, p.log)
	}
}
