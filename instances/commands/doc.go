// SPDX-License-Identifier: Apache-2.0

// Package commands has the commands of instances, templates and workspaces, which
// cmd/okara adds to its tree by [Add], and the hidden ones that a server starts for
// each attempt of a run.
//
// Most of them call a server; internal/cli defines how a server is reached and how a
// command ends, as for all other commands of okara.
package commands
