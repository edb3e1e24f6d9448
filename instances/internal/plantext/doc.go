// SPDX-License-Identifier: Apache-2.0

// Package plantext has what pages and commands know of the text form of a plan: its
// largest size, its numbers and the effect of a line.
package plantext
