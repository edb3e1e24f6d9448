// SPDX-License-Identifier: Apache-2.0

// Package explain tells on one page what an object of okara waits for: what its conditions
// say, what runs for it and how that goes, its last events, and the commands that help. It
// reads with the rights of who asks, and says what these do not show.
package explain
