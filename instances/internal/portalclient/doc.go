// SPDX-License-Identifier: Apache-2.0

// Package portalclient is a client for a front-end's API of templates and instances,
// which package api describes.
//
// Every change has its own idempotency key, which stays the same when the request is
// repeated: a broken connection makes no second instance. [Client.Key] sets the key of a
// change that was begun before.
//
// Texts from the server are untrusted: a caller that prints them makes them safe for a
// terminal first (package text).
package portalclient
