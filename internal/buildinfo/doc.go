// SPDX-License-Identifier: Apache-2.0

// Package buildinfo describes what a program was built from. The number of the version is in the file
// VERSION, from which the Makefile and the release take it; a test of internal/repotest holds the chart
// and the changelog to it. A build that is no release shows its commit: 0.1.0-dev+2d80ff9f.
package buildinfo
