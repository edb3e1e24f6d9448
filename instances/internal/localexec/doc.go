// SPDX-License-Identifier: Apache-2.0

// Package localexec executes one tool run for an instance on this machine: the executor,
// and the child process that it starts for each attempt.
package localexec
