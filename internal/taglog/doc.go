// SPDX-License-Identifier: Apache-2.0

// Package taglog removes expired records from repositories in which processes
// keep records under tags, one tag for each process and period.
//
// Many registries delete no tags. There the records stay, which costs a longer
// list of tags and nothing else: their readers ignore them by the day in the
// tag. So a refusal is no error. It is logged once, and nothing is deleted any
// more until the process ends.
package taglog
