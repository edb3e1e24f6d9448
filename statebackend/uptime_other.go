// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package statebackend

import "time"

// Uptime is a clock that also advances while the machine sleeps.
func Uptime() time.Duration { return wallTime() }
