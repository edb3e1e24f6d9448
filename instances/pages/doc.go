// SPDX-License-Identifier: Apache-2.0

// Package pages serves the pages of templates and instances. There is no promise of
// compatibility: it is for okara's own programs.
//
// The pages get everything from the API of instances, which they call in this process with
// the credentials of the caller. So permissions, masking and the wording of refusals are
// decided only in package portal; where another replica leads, the API request is forwarded.
//
// # Alternatives considered
//
// Forwarding whole pages: a replica of another version has other assets, and seals its
// messages with keys that this one may not have.
package pages
