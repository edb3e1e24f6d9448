// SPDX-License-Identifier: Apache-2.0

// Command record runs a script and renders its output as an animated terminal, an SVG that
// browsers show without script:
//
//	go run ./record SCRIPT OUT.svg
//
// Lines appear at their original times, but waits are shortened to a second, and lines that
// came at once are spread to be readable. With reduced motion the browser shows the end.
package main
