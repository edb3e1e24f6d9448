// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import (
	"errors"
	"io/fs"
)

// PlaceCommand is the command of okara that calls [Place] for a child.
const PlaceCommand = "instance-place"

// PlaceOptions say what a child finds.
type PlaceOptions struct {
	Size     int64
	UID, GID int
	Errored  string
	Show     []string
	Inside   bool
}

// Place does nothing here.
func Place(PlaceOptions, []string, []string) error { return errors.ErrUnsupported }

// Args are none here.
func (PlaceOptions) Args() []string { return nil }

func noRoom(string) (bool, error) { return false, nil }

func onDisk(info fs.FileInfo) int64 { return info.Size() }
