// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
	"syscall"
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

// Running is a running command of the tool.
type Running struct{}

func (o *Order) Start(*Workdir, Command) (*Running, error) { return nil, errSystem }

// Interrupt does nothing on this system.
func (*Running) Interrupt() error { return errSystem }

// Kill does nothing on this system.
func (*Running) Kill() error { return errSystem }

// Wait does nothing on this system.
func (*Running) Wait() error { return errSystem }

// ForceSignal asks a child to kill its tool and to end.
const ForceSignal = syscall.SIGTERM

func Identify(int) (Process, error)           { return Process{}, errSystem }
func (p Process) Alive() bool                 { return false }
func (p Process) Signal(syscall.Signal) error { return errSystem }

func (Processes) Alive() bool      { return false }
func (Processes) Interrupt() error { return errSystem }
func (Processes) Kill() error      { return errSystem }
