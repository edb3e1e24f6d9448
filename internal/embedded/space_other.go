// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package embedded

// Space is not implemented for this system.
func Space(string) (size, free int64, ok bool) { return 0, 0, false }
