// SPDX-License-Identifier: Apache-2.0

// Package buildinfo describes the source that a program was built from, as recorded by the Go
// toolchain: a release has the version of its tag, and a build from a checkout has a pseudo-version
// with the time and the commit (https://go.dev/ref/mod#pseudo-versions).
package buildinfo
