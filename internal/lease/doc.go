// SPDX-License-Identifier: Apache-2.0

// Package lease ends a tool before the lease of its lock does: in okara, which runs
// the tool, and in okara's provider, which the tool runs.
package lease
