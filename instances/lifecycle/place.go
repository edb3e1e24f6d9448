// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "slices"

// Place is where the run of an instance stands among those that wait for a place,
// the next one being 1, as of the last commit. 0: it runs, or waits for something
// else. Shares of owners may let a later one go first.
func (d *Document) Place(id string) int {
	r := d.Records[id]
	if r == nil || !r.Run.waits() {
		return 0
	}
	return 1 + slices.IndexFunc(d.queue(d.Clock.At).waiting, func(w *Record) bool { return w.ID == id })
}
