// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package statebackend

import "time"

// uptime runs while the machine sleeps.
func Uptime() time.Duration { return wallTime() }
