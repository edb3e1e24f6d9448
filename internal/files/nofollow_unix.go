// SPDX-License-Identifier: Apache-2.0

//go:build unix

package files

import "syscall"

// NoFollow is a flag of os.OpenFile: a symbolic link is an error.
const NoFollow = syscall.O_NOFOLLOW
