// SPDX-License-Identifier: Apache-2.0

// Package checkout reads from a folder's git repository and the variables of a CI job what
// publishing needs: where the source is, which version a tag names, and what has changed
// since a commit.
//
// The package runs git, which has to be on PATH.
package checkout
