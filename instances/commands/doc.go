// SPDX-License-Identifier: Apache-2.0

// Package commands has the commands of instances, templates and workspaces, which
// cmd/okara adds to its tree by [Add], and the hidden ones that a server starts for
// each attempt of a run.
//
// Most of them ask a server; how one is reached, and how a command ends, is that of
// internal/cli, as for any other command of okara.
package commands
