// SPDX-License-Identifier: Apache-2.0

// Package lockfile completes dependency lock files, .terraform.lock.hcl, for all
// platforms.
//
// [File.Complete] does all of it: it adds entries for the providers that a
// configuration requires, and says what it did with each.
//
// The tools write the hashes of the platform that they run on. [Hashes] collects
// those of every platform from a source: zh: of each package and of each line of
// SHA256SUMS, which is what the registry protocol gives a client, and h1: where
// the source publishes it. [Merge] adds them to an entry and reports old zh: hashes
// that the source does not know. [File.With] writes the entries back and leaves
// every other byte of the file as it is. Hashes are sorted by bytes, one per
// line: any other form makes the tools write the file anew, and warn under
// -lockfile=readonly.
package lockfile
