// SPDX-License-Identifier: Apache-2.0

//go:build unix

package depot

import "syscall"

const noFollow = syscall.O_NOFOLLOW
