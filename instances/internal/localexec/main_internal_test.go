// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
)

// TestMain lets the test program act as okara: the executor starts this program with the
// name of a command.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if do, ok := commands()[os.Args[1]]; ok {
			if err := do(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "error:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// commands returns the commands of okara that tests need.
func commands() map[string]func(args []string) error {
	return map[string]func(args []string) error{
		ExecCommand: execTestCommand,
		"init":      runtest.Tool("init"),
		"plan":      runtest.Tool("plan"),
		"apply":     runtest.Tool("apply"),
		"show":      runtest.Tool("show"),
		RunCommand:  stubChild,

		sandbox.EnterCommand: placeTestCommand,
	}
}

func execTestCommand(args []string) error {
	var o ExecOptions
	f := flag.NewFlagSet(ExecCommand, flag.ContinueOnError)
	f.StringVar(&o.Base, "base", "", "")
	f.StringVar(&o.Dir, "dir", "", "")
	f.IntVar(&o.UID, "uid", 0, "")
	f.IntVar(&o.GID, "gid", 0, "")
	f.Int64Var(&o.Memory, "memory", 0, "")
	f.Int64Var(&o.FileSize, "file-size", 0, "")
	f.IntVar(&o.Processes, "processes", 0, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		return errors.New("no program")
	}
	return Exec(o, f.Args(), os.Environ())
}

func placeTestCommand(args []string) error {
	var o sandbox.EnterOptions
	f := flag.NewFlagSet(sandbox.EnterCommand, flag.ContinueOnError)
	f.Int64Var(&o.Size, "size", 0, "")
	f.IntVar(&o.UID, "uid", 0, "")
	f.IntVar(&o.GID, "gid", 0, "")
	f.StringVar(&o.Errored, "errored", "", "")
	f.Func("show", "", func(name string) error {
		o.Show = append(o.Show, name)
		return nil
	})
	f.BoolVar(&o.Inside, "inside", false, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	return sandbox.Enter(o, f.Args(), os.Environ())
}
