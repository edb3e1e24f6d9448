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
//
// `okara verify --deep` reads archives through a server and keeps nothing: its
// requests say so in [PurposeHeader], which is read only below …/VERSION/content,
// never for the links of the tools. A client that says so falsely is missing in a
// statistic, as one that asks for all but the first byte is; nothing else depends
// on it: rights, limits, the bytes of the metrics and the log are the same.
package downloads

// PurposeHeader is a request header that says what a client reads an archive for.
// [PurposeCheck] is its only value.
const (
	PurposeHeader = "Okara-Purpose"
	PurposeCheck  = "check"
)
