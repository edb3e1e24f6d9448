// SPDX-License-Identifier: Apache-2.0

// Package portalclient asks a front-end for templates and instances, as package
// api describes it.
//
// Every change has a key of its own, which stays the same however often the
// request is repeated: a broken connection makes no second instance. [Client.Key]
// names the key of a change that somebody began before.
//
// What the server says is foreign text: whoever prints it makes it safe for a
// terminal first (package text).
package portalclient
