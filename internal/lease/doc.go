// SPDX-License-Identifier: Apache-2.0

// Package lease ends a tool before the lease of its lock expires. okara, which runs the
// tool, uses it, and so does okara's provider, which the tool runs.
package lease
