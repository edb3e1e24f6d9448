// SPDX-License-Identifier: Apache-2.0

// Package localexec executes tofu once for an instance on this machine: the executor,
// and the child that it starts for each attempt.
package localexec
