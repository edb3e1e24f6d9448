// SPDX-License-Identifier: Apache-2.0

// Package checkout reads what a folder's git repository and the variables of a CI job say
// of what is to be published: where the source is, which version a tag names, and what
// has changed since a commit.
//
// It runs git, which has to be on PATH.
package checkout
