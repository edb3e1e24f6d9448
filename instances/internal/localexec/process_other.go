// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package localexec

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
)

// errSystem says why nothing runs here: killing all processes of a tool, and finding them
// again after a crash, need Linux.
var errSystem = fmt.Errorf("instances are run on Linux only: %w", errors.ErrUnsupported)

// Harden does nothing on this system.
func Harden() error { return nil }

// ExecOptions are the settings that [Exec] applies before the tool runs.
type ExecOptions struct {
	UID, GID  int
	Base, Dir string
	Memory    int64
	FileSize  int64
	Processes int
}

// Exec is not supported on this system.
func Exec(ExecOptions, []string, []string) error { return errSystem }

func (o *Order) startTool(*sandbox.Workdir, toolCommand) (startedTool, error) { return nil, errSystem }

const forceSignal = syscall.SIGTERM

func newProcess(int) (process, error)         { return process{}, errSystem }
func (p process) alive() bool                 { return false }
func (p process) signal(syscall.Signal) error { return errSystem }

func (attempt) alive() bool      { return false }
func (attempt) interrupt() error { return errSystem }
func (attempt) kill() error      { return errSystem }
