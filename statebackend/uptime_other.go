// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package statebackend

import "time"

// uptime runs while the machine sleeps.
func uptime() time.Duration { return wallTime() }
