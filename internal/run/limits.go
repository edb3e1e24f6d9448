// SPDX-License-Identifier: Apache-2.0

package run

import "cmp"

// Limits where a spec says nothing.
const (
	defaultScratch = 2 << 30
)

func (l Limits) scratch() int64 { return cmp.Or(l.Scratch, defaultScratch) }
