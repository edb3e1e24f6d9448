// SPDX-License-Identifier: Apache-2.0

// Package explain describes on one page what an object of okara waits for: its conditions, the
// state of what runs for it, its latest events, and the commands that help. It reads with the
// rights of the caller, and says which parts these rights do not show.
package explain
