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

const forceSignal = syscall.SIGTERM

type tool struct{}

func (o *Order) start(*Workdir, Command) (*tool, error) { return nil, errSystem }

func (*tool) interrupt() error { return errSystem }
func (*tool) kill() error      { return errSystem }
func (*tool) wait() error      { return errSystem }

func harden() error                                 { return nil }
func execute(ExecOptions, []string, []string) error { return errSystem }
func identify(int) (Process, error)                 { return Process{}, errSystem }

func (Process) alive() bool                 { return false }
func (Process) signal(syscall.Signal) error { return errSystem }

func (Processes) alive() bool      { return false }
func (Processes) interrupt() error { return errSystem }
func (Processes) kill() error      { return errSystem }
