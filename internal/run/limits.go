// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// defaultScratch bounds the scratch folder where a spec says nothing.
const defaultScratch = 2 << 30

// scratchTime is how often the size of a scratch folder is looked at while a tool
// runs.
const scratchTime = 2 * time.Second

// errScratchFull says that an attempt wrote more than it may.
var errScratchFull = errors.New("the scratch folder is full")

func (l Limits) scratch() int64 { return cmp.Or(l.Scratch, defaultScratch) }

// checkScratch refuses a scratch folder that holds more than it may. Plugins are
// counted only where there is no cache of them.
func (o *Order) checkScratch() error {
	limit := o.Spec.Limits.scratch()
	over, err := o.scratchOver(limit)
	if err == nil && over {
		err = fmt.Errorf("%w: it holds more than %d bytes", errScratchFull, limit)
	}
	return err
}

// scratchOver tells whether what the tool wrote takes more bytes of the disk.
func (o *Order) scratchOver(limit int64) (bool, error) {
	size := int64(0)
	err := filepath.WalkDir(o.work(), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return nil // a tool that runs makes and removes files
		}
		if info, err := d.Info(); err == nil {
			size += onDisk(info)
		}
		if size > limit {
			return fs.SkipAll
		}
		return nil
	})
	return size > limit, err
}
