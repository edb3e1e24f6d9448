// SPDX-License-Identifier: Apache-2.0

package child

import (
	"os"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
)

// TestMain lets the test program act as the tool, and as okara, which starts it.
func TestMain(m *testing.M) {
	commands := map[string]func(args []string) error{sandbox.ExecCommand: execTestCommand}
	for _, name := range []string{"init", "plan", "apply", "show"} {
		commands[name] = runtest.Tool(name)
	}
	runtest.Main(m, commands)
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
