// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
)

// TestMain lets the test program act as okara, and as unusual processes.
func TestMain(m *testing.M) {
	runtest.Main(m, map[string]func(args []string) error{ExecCommand: execTestCommand, "leave-thread": leaveFirstThread, "exec-again": execAgain})
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
