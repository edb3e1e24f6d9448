// SPDX-License-Identifier: Apache-2.0

//go:build unix

package files

import "syscall"

// NoFollow is a flag of os.OpenFile that refuses a symbolic link.
const NoFollow = syscall.O_NOFOLLOW
