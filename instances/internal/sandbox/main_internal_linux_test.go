// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"os"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
)

// TestMain lets the test program act as okara, which starts the tool, and as programs whose
// processes are unusual.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		commands := map[string]func(args []string) error{ExecCommand: execTestCommand, "leave-thread": leaveFirstThread, "exec-again": execAgain}
		if do, ok := commands[os.Args[1]]; ok {
			if err := do(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "error:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// execTestCommand acts as the command by which a run starts the tool.
func execTestCommand(args []string) error {
	var o ExecOptions
	line, err := runtest.Parse(args, map[string]any{
		"base": &o.Base, "dir": &o.Dir, "uid": &o.UID, "gid": &o.GID, "memory": &o.Memory, "file-size": &o.FileSize, "processes": &o.Processes,
	})
	if err != nil {
		return err
	}
	return Exec(o, line, os.Environ())
}
