// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// errSystem says why nothing runs here: killing all processes of a tool, and finding them
// again after a crash, need Linux.
var errSystem = fmt.Errorf("instances require Linux: %w", errors.ErrUnsupported)

const ForceSignal = syscall.SIGTERM

type Running struct{}

func (o *Order) Start(*Workdir, Command) (*Running, error) { return nil, errSystem }

func (*Running) Interrupt() error { return errSystem }
func (*Running) Kill() error      { return errSystem }
func (*Running) Wait() error      { return errSystem }

func Enter(EnterOptions, []string, []string) error { return errSystem }
func Exec(ExecOptions, []string, []string) error   { return errSystem }
func Harden() error                                { return nil }
func Identify(int) (Process, error)                { return Process{}, errSystem }

func (Process) Alive() bool                 { return false }
func (Process) Signal(syscall.Signal) error { return errSystem }

func (Processes) Alive() bool      { return false }
func (Processes) Interrupt() error { return errSystem }
func (Processes) Kill() error      { return errSystem }

func isFull(string) (bool, error)   { return false, nil }
func onDisk(info fs.FileInfo) int64 { return info.Size() }
