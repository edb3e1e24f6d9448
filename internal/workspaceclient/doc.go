// SPDX-License-Identifier: Apache-2.0

// Package workspaceclient is a client for the workspaces of an organization. It uses the
// routes of tfe.v2, as `cloud` and backend "remote" do. Bodies are JSON:API 1.1, as far
// as these routes need it.
//
// Repeating a request is harmless: a workspace is made once, and a deleted workspace
// stays deleted.
//
// Texts from the server are untrusted: a caller makes them safe for a terminal before
// printing them.
package workspaceclient
