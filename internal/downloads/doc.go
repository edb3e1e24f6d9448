// SPDX-License-Identifier: Apache-2.0

// Package downloads counts how often archives of modules and providers are
// fetched, over all replicas and restarts, without a database.
//
// Each process has a tag of its own for each day, which it alone rewrites every
// hour: no two writers meet, and readers add all tags up. What cannot be written or
// read is tried again an hour later, and no download waits for it. A process that
// is killed loses what it counted since it last wrote.
//
// Days are kept apart for 90 days; what is older is one sum. Tags older than 400
// days are not read, and deleted where the registry deletes tags: a total is that
// of 400 days.
package downloads
