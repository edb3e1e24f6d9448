// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"os"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
)

// TestMain lets the test program act as okara's commands.
func TestMain(m *testing.M) { runtest.Main(m, commands()) }

// commands returns the commands of okara that tests need.
func commands() map[string]func(args []string) error {
	return map[string]func(args []string) error{
		sandbox.ExecCommand: execTestCommand,
		"init":              runtest.Tool("init"),
		"plan":              runtest.Tool("plan"),
		"apply":             runtest.Tool("apply"),
		"show":              runtest.Tool("show"),
		RunCommand:          stubChild,

		sandbox.EnterCommand: placeTestCommand,
	}
}

// execTestCommand acts as the command by which a run starts the tool.
func execTestCommand(args []string) error {
	var o sandbox.ExecOptions
	line, err := runtest.Parse(args, map[string]any{
		"base": &o.Base, "dir": &o.Dir, "uid": &o.UID, "gid": &o.GID, "memory": &o.Memory, "file-size": &o.FileSize, "processes": &o.Processes,
	})
	if err != nil {
		return err
	}
	return sandbox.Exec(o, line, os.Environ())
}

// placeTestCommand acts as the command that starts a run in a sandbox.
func placeTestCommand(args []string) error {
	var o sandbox.EnterOptions
	line, err := runtest.Parse(args, map[string]any{
		"size": &o.Size, "uid": &o.UID, "gid": &o.GID, "errored": &o.Errored, "show": &o.Show, "inside": &o.Inside,
	})
	if err != nil {
		return err
	}
	return sandbox.Enter(o, line, os.Environ())
}
