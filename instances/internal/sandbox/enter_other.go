// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import (
	"errors"
	"io/fs"
)

// EnterCommand is the command of okara that calls [Enter] for a child.
const EnterCommand = "instance-place"

// EnterOptions configure the folder and namespace of a child.
type EnterOptions struct {
	Size     int64
	UID, GID int
	Errored  string
	Show     []string
	Inside   bool
}

// Enter is not supported here.
func Enter(EnterOptions, []string, []string) error { return errors.ErrUnsupported }

// Args returns nothing here.
func (EnterOptions) Args() []string { return nil }

func full(string) (bool, error) { return false, nil }

func onDisk(info fs.FileInfo) int64 { return info.Size() }
