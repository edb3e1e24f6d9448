// SPDX-License-Identifier: Apache-2.0

// Package runtest has what tests of runs share: a stub of the tool, and waiting for what
// processes do.
package runtest
