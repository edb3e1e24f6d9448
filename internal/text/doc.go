// SPDX-License-Identifier: Apache-2.0

// Package text is how people write and read what the rest of okara counts: numbers
// of bytes, and words of strangers that must have an end.
package text
