// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package files

// NoFollow has no effect on this system: links are refused by a check before opening.
const NoFollow = 0
