// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/seed-141914ff/okara/instances/internal/localexec"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// runsServerMain is a server that starts one attempt and is then killed: "STORAGE PROGRAM
// ISOLATION HOST", with the spec on standard input.
func runsServerMain() {
	err := fmt.Errorf("runs-server %v", os.Args[1:])
	if len(os.Args) == 5 {
		err = runsServer(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func runsServer(storage, program, isolation, host string) error {
	var s run.Spec
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return err
	}
	l, err := localexec.NewLocal(context.Background(), runsOptions(storage, program, isolation, host))
	if err != nil {
		return err
	}
	if _, err := l.Start(context.Background(), s); err != nil {
		return err
	}
	select {} // until it is killed
}

// runsOptions returns the options of a server whose registry is at host.
func runsOptions(storage, program, isolation, host string) localexec.LocalOptions {
	okara, err := exec.LookPath("okara")
	if err != nil {
		okara = ""
	}
	open := func(s run.Spec) (*oci.Repo, error) { return oci.OpenRepo(s.Repository, oci.Options{}) }
	return localexec.LocalOptions{
		Storage: storage, Okara: okara, Program: program, Isolation: isolation, Getenv: os.Getenv, Only: true,
		Order: func(context.Context, run.Spec) (sandbox.Order, error) {
			return sandbox.Order{Registry: sandbox.Registry{Prefix: host + "/okara"}, Server: sandbox.Server{URL: "http://127.0.0.1:1", Host: "127.0.0.1:1"}}, nil
		},
		Instance: func(_ context.Context, s run.Spec) (records.InstanceRepo, error) {
			r, err := open(s)
			return records.InstanceRepo{Repo: r}, err
		},
		State: func(_ context.Context, s run.Spec) (*statebackend.Store, error) {
			r, err := open(s)
			if err != nil {
				return nil, err
			}
			return statebackend.New(r, statebackend.Options{}), nil
		},
	}
}
