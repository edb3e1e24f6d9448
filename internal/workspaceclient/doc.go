// SPDX-License-Identifier: Apache-2.0

// Package workspaceclient asks a front-end for the workspaces of an organization, by
// the routes of tfe.v2 that `cloud` and backend "remote" use as well. Its bodies are
// those of JSON:API 1.1, as far as these routes need it.
//
// A repeated request is harmless: a workspace is made once, and one that is gone
// stays so.
//
// What the server says is foreign text: whoever prints it makes it safe for a
// terminal first.
package workspaceclient
