// SPDX-License-Identifier: Apache-2.0

// Package localexec executes runs of the tool for instances on this machine: it starts a
// child process for each attempt, which outlives the server, observes it, and ends what is
// left of it. What the child does is its own: they share package sandbox.
package localexec
