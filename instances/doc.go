// SPDX-License-Identifier: Apache-2.0

// Package instances launches temporary instances of modules in `okara serve`.
//
// The command passes an [Extension] to a server of package
// [github.com/seed-141914ff/okara/internal/server], which knows it as an interface and
// imports nothing from this folder. Package settings decodes and checks its blocks of the
// settings file. From them the extension builds a [platform]: the ledger that stores the
// records of all instances (the document of package lifecycle), the driver that carries out
// what package lifecycle decides, the executor of the tools, and the API with its pages. The
// runs of workspaces with a block cloud are records of the same ledger (remote.go). A server
// with the setting role = "portal" has no such records: it only knows which server leads,
// and forwards every request to it.
//
// The child process of a run reaches the built-in registry through a socket, with a token
// for the repository of its instance (socket.go), and any other registry with the
// credential of the server.
//
// The package is for okara's own programs; there is no promise of compatibility.
package instances
