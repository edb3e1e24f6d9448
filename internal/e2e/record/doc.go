// SPDX-License-Identifier: Apache-2.0

// Command record runs a script and draws what it prints as a moving picture of a terminal,
// an SVG that browsers show without script:
//
//	go run ./record SCRIPT OUT.svg
//
// Lines appear as they did, but waits of more than a second become one second, and lines
// that came at once can be read. Whoever asks for less motion sees the end.
package main
