// SPDX-License-Identifier: Apache-2.0

// Package downloads counts how often archives of modules and providers are
// downloaded, across all replicas and restarts, without a database.
//
// Each process has a separate tag for each day, which only this process
// rewrites every hour: writers never conflict, and readers add up all tags. A
// failed write or read is repeated an hour later, and no download waits for it.
// A process that is killed loses the counts since its last write.
//
// Days are kept separately for 90 days; older ones are added up. Tags older
// than 400 days are not read, and are deleted if the registry deletes tags: a
// total covers 400 days.
package downloads
