// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package run

import (
	"errors"
	"fmt"
)

// errSystem says why nothing runs here: what ends all that a tool started, and
// finds it again after a crash, are means of Linux.
var errSystem = fmt.Errorf("instances are run on Linux only: %w", errors.ErrUnsupported)

// Harden does nothing here.
func Harden() error { return nil }

// ExecOptions are what [Exec] sets before the tool runs.
type ExecOptions struct {
	UID, GID  int
	Dir       string
	Memory    int64
	FileSize  int64
	Processes int
}

// Exec does nothing here.
func Exec(ExecOptions, []string, []string) error { return errSystem }

func (o *Order) startTool(toolCommand) (startedTool, error) { return nil, errSystem }
