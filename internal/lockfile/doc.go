// SPDX-License-Identifier: Apache-2.0

// Package lockfile completes dependency lock files, .terraform.lock.hcl, for all platforms.
//
// [File.Complete] does the complete work: it adds entries for the providers
// that a configuration requires, and returns a result for each.
//
// The tools write only the hashes of the platform on which they run. [Hashes] collects those of
// every platform from a source: zh: of each package and of each line of SHA256SUMS, as in the
// registry protocol, and h1: if the source publishes it. [Merge] adds them to an entry and reports
// old zh: hashes that the source does not know. [File.With] writes the entries back and leaves
// every other byte of the file unchanged. Hashes are sorted by bytes, one per line: with any other
// form the tools rewrite the file, and warn under -lockfile=readonly.
package lockfile
