// SPDX-License-Identifier: Apache-2.0

// Package timetable says when something is stopped and started again, by two lines of
// cron on the clocks of one time zone.
//
// A time is what those clocks show. Where they show it twice, as in the night in which
// summer time ends, the first of the two counts; where they leave it out, the last second
// before they jump. So no stop and no start is lost, none is done twice, and their order
// stays.
package timetable
