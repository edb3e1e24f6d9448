// SPDX-License-Identifier: Apache-2.0

// Package instances is the part of `okara serve` that launches modules for a while.
//
// An [Extension] is mounted by the command into a server of package
// [github.com/seed-141914ff/okara/internal/server], which knows it as an interface and
// imports nothing of this folder. Its blocks of the file of settings are those of
// package settings; checked, they become a [platform]: the ledger that keeps the
// document of the machine, what drives that, what runs the tools, and the API over all
// of it with its pages. The runs of workspaces, which tfe.v2 asks for, are records of
// the same ledger (remote.go). A portal has the address book of the ledger alone, and
// hands everything on to the leader.
//
// The child of a run reaches the built-in registry by a socket, with a token for the
// repository of its instance (socket.go), and any other with the credential of the
// server.
//
// The package is for okara's own programs; there is no promise of compatibility.
package instances
