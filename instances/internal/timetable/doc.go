// SPDX-License-Identifier: Apache-2.0

// Package timetable computes when something is stopped and started, from two lines of
// cron on the wall clock of one time zone.
//
// If the clock shows a time twice, as in the night in which summer time ends, the first
// one counts; if it skips a time, the last second before the jump. So no stop or start is
// lost or done twice, and their order is kept.
package timetable
