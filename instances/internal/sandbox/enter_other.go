// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import (
	"errors"
	"io/fs"
)

// EnterCommand is the command of okara that calls [Enter] for a child.
const EnterCommand = "instance-place"

// EnterOptions say what a child finds.
type EnterOptions struct {
	Size     int64
	UID, GID int
	Errored  string
	Show     []string
	Inside   bool
}

// Enter does nothing here.
func Enter(EnterOptions, []string, []string) error { return errors.ErrUnsupported }

// Args are none here.
func (EnterOptions) Args() []string { return nil }

func full(string) (bool, error) { return false, nil }

func onDisk(info fs.FileInfo) int64 { return info.Size() }
