// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package localexec

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// thisMachine says why nothing runs here: killing all that a tool started needs Linux.
func thisMachine() (machine, error) {
	return machine{}, fmt.Errorf("instances require Linux: %w", errors.ErrUnsupported)
}

func ownSession() *syscall.SysProcAttr { return nil }
func delegatedCgroup() (string, error) { return "", errors.ErrUnsupported }
func ownedBy(fs.FileInfo, int) bool    { return false }

func newCgroup(parent, name string, memory int64, pids int, cpus float64) (string, error) {
	return "", errors.ErrUnsupported
}
