// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-141914ff/okara/instances/internal/localexec"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestMain lets tests start okara with the commands of this package.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"okara": okaraMain}) }

func okaraMain() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
	os.Exit(cli.Run(ctx, a, newRoot, os.Args[1:]))
}

// runsOptions returns the options of a server whose registry is at host.
func runsOptions(storage, program, isolation, host string) localexec.LocalOptions {
	okara, err := exec.LookPath("okara")
	if err != nil {
		okara = ""
	}
	open := func(s run.Attempt) (*oci.Repo, error) { return oci.OpenRepo(s.Repository, oci.Options{}) }
	return localexec.LocalOptions{
		Storage: storage, Okara: okara, Program: program, Isolation: isolation, Getenv: os.Getenv, Only: true,
		Order: func(context.Context, run.Attempt) (sandbox.Order, error) {
			return sandbox.Order{Registry: sandbox.Registry{Prefix: host + "/okara"}, Server: sandbox.Server{URL: "http://127.0.0.1:1", Host: "127.0.0.1:1"}}, nil
		},
		Instance: func(_ context.Context, s run.Attempt) (records.InstanceRepo, error) {
			r, err := open(s)
			return records.InstanceRepo{Repo: r}, err
		},
		State: func(_ context.Context, s run.Attempt) (*statebackend.Store, error) {
			r, err := open(s)
			if err != nil {
				return nil, err
			}
			return statebackend.New(r, statebackend.Options{}), nil
		},
	}
}
