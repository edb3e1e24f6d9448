// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

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
	registry   *rig.Process
	operator   *rig.Process
	lease      string   // duration of the operator's lease
	metrics    string   // HOST:PORT of the operator's metrics
	runs       []string // flags of an operator that runs modules
	processes  []*rig.Process
}

func newWorld() (*world, error) {
	free, err := rig.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	dir, remove, err := files.TempDir("")
	if err != nil {
		return nil, err
	}
	w := &world{root: rig.Root(), dir: dir, remove: remove, lease: "5s", origin: free[0], front: free[1], metrics: free[2]}
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

// runProgram runs a program to its end and prints its command line and output.
func (w *world) runProgram(ctx context.Context, name string, args ...string) error {
	fmt.Println("$", name, strings.ReplaceAll(strings.Join(args, " "), w.dir+"/", ""))
	cmd := exec.CommandContext(ctx, filepath.Join(w.root, "bin", name), args...)
	cmd.Env = w.programEnv()
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// startProgram starts a program that make has built, which runs until it is killed.
func (w *world) startProgram(name string, args ...string) (*rig.Process, error) {
	p, err := rig.Launch(w.dir, filepath.Join(w.root, "bin", name), w.programEnv(), args...)
	if err == nil {
		w.processes = append(w.processes, p)
	}
	return p, err
}

// serveRegistry starts a registry with a front-end at an address, and waits until it answers.
func (w *world) serveRegistry(address, name string, flags ...string) (*rig.Process, error) {
	p, err := w.startProgram("okara", append([]string{"serve", "--listen", address, "--storage", w.joinPath(name)}, flags...)...)
	if err != nil {
		return nil, err
	}
	return p, p.AwaitOK(http.DefaultClient, "http://"+address+"/readyz")
}

// close stops the processes, and prints their logs on failure.
func (w *world) close(failed bool) error {
	for _, p := range w.processes {
		if failed {
			fmt.Fprintf(os.Stderr, "\nthe log of a program:\n%s", p.LogTail())
		}
		p.Kill()
	}
	w.kube.Stop()
	return w.remove()
}
