// SPDX-License-Identifier: Apache-2.0

// Package buildinfo says what a program was built from, as the Go toolchain wrote it into
// the program: a release has the version of its tag, and what is built in a checkout a
// pseudo-version with the time and the commit (https://go.dev/ref/mod#pseudo-versions).
package buildinfo
