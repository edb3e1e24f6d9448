// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package files

import (
	"errors"
	"os"
)

func unnamedFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
