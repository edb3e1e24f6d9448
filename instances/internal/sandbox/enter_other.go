// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import "io/fs"

func enter(EnterOptions, []string, []string) error { return errSystem }

func full(string) (bool, error) { return false, nil }

func onDisk(info fs.FileInfo) int64 { return info.Size() }
