// SPDX-License-Identifier: Apache-2.0

// Package run executes tofu once for an instance: the specification of a run,
// the executor on this machine and the child that it starts.
package run
