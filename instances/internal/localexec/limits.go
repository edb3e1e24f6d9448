// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"cmp"
	"time"
)

// defaultScratch bounds the scratch folder where a spec says nothing.
const defaultScratch = 2 << 30

// scratchTime is how often the size of the folder of a tool is looked at while it
// runs, where the kernel does not bound it.
const scratchTime = 2 * time.Second

func (o *Order) maxScratch() int64 { return cmp.Or(o.Spec.Limits.Scratch, defaultScratch) }

// checkScratch refuses to go on where the tool wrote as much as it may.
func (o *Order) checkScratch() error { return o.dir.Check(o.maxScratch()) }
