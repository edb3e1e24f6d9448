// SPDX-License-Identifier: Apache-2.0

// Package manual finds pages of okara's documentation, which the program carries: for
// "okara docs" and the pages below /ui/docs.
package manual
