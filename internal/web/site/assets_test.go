// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"os"
	"testing"
)

// TestAssets bounds the files that each browser loads.
//
// Shows: pages 2
// Shows: page-mistakes 6
func TestAssets(t *testing.T) {
	for file, maxSize := range map[string]int64{"assets/app.css": 24 << 10, "assets/app.js": 14 << 10} {
		if info, err := os.Stat(file); err != nil || info.Size() > maxSize {
			t.Errorf("%s: %v, more than %d bytes", file, err, maxSize)
		}
	}
}
