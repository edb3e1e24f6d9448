// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// system is the namespace of the chart.
const system = "okara-system"

// world is the environment of a measurement.
type world struct {
	root, dir  string
	remove     func() error
	kube       rig.Cluster
	admin      *rest.Config
	kubeconfig string // of the operator
	origin     string // HOST:PORT of the registry that Modules copy from
	front      string // HOST:PORT of the registry and its front-end
	operator   *process
	lease      string   // duration of the operator's lease
	metrics    string   // HOST:PORT of the operator's metrics
	runs       []string // flags of an operator that runs modules
	processes  []*process
}

func newWorld() (*world, error) {
	metrics, err := rig.FreeAddress()
	if err != nil {
		return nil, err
	}
	dir, remove, err := files.TempDir("")
	if err != nil {
		return nil, err
	}
	w := &world{root: rig.Root(), dir: dir, remove: remove, lease: "5s", metrics: metrics}
	for _, d := range []string{"home", "app", "tmp"} {
		if err := os.Mkdir(w.joinPath(d), 0o700); err != nil {
			return nil, errors.Join(err, remove())
		}
	}
	return w, nil
}

func (w *world) joinPath(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

// programEnv returns the environment of every program, without the user's own configuration.
func (w *world) programEnv() []string {
	return append(os.Environ(), "HOME="+w.joinPath("home"), "XDG_DATA_HOME="+w.joinPath("home"), "XDG_CONFIG_HOME="+w.joinPath("home"), "DOCKER_CONFIG="+w.joinPath("home"),
		"TMPDIR="+w.joinPath("tmp"), "OKARA_REGISTRY=", "KUBECONFIG=")
}

// program returns the path at which make has put a program.
func (w *world) program(name string) string {
	return filepath.Join(w.root, "bin", name)
}

// runProgram runs a program to its end and prints its command line and output.
func (w *world) runProgram(ctx context.Context, name string, args ...string) error {
	fmt.Println("$", name, strings.ReplaceAll(strings.Join(args, " "), w.dir+"/", ""))
	cmd := exec.CommandContext(ctx, w.program(name), args...)
	cmd.Env = w.programEnv()
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// process is a program that runs until it is stopped.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()
}

// startProgram starts a program that logs to a file.
func (w *world) startProgram(name, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(w.joinPath(fmt.Sprintf("%s-%d.log", name, len(w.processes))), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: fmt.Sprintf("%s (%d)", name, len(w.processes)), cmd: exec.Command(w.program(program), args...), log: log.Name()}
	p.cmd.Env = w.programEnv()
	p.cmd.Stdout = log
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	w.processes = append(w.processes, p)
	return p, nil
}

// listening finds the address on which okara serve says that it listens.
var listening = regexp.MustCompile(`http://(127\.0\.0\.1:[0-9]+)`)

// serveRegistry starts a registry with a front-end, and returns HOST:PORT.
func (w *world) serveRegistry(name string, flags ...string) (string, error) {
	return w.serveAt("127.0.0.1:0", name, flags...)
}

// serveAt is like serve, with a given address.
func (w *world) serveAt(address, name string, flags ...string) (string, error) {
	p, err := w.startProgram(name, "okara", append([]string{"serve", "--listen", address, "--storage", w.joinPath(name)}, flags...)...)
	if err != nil {
		return "", err
	}
	var at string
	err = pollUntil(context.Background(), time.Minute, func() (bool, error) {
		b, err := os.ReadFile(p.log)
		if m := listening.FindSubmatch(b); m != nil {
			at = string(m[1])
		}
		return at != "", err
	})
	return at, err
}

// close stops the processes, and prints their logs on failure.
func (w *world) close(failed bool) error {
	for _, p := range w.processes {
		if failed {
			b, _ := os.ReadFile(p.log) // printed as far as it can be read
			fmt.Fprintf(os.Stderr, "\nthe log of %s:\n%s", p.name, b[max(0, len(b)-4096):])
		}
		p.kill()
	}
	w.kube.Stop()
	return w.remove()
}
