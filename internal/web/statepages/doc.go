// SPDX-License-Identifier: Apache-2.0

// Package statepages has the pages of states: the list of states, the content of a
// version, the difference between two versions, the holder of a lock, and a masked value
// on request.
//
// A caller sees only workspaces that it may read; others are neither listed nor counted.
// A masked value is shown only on the page that was requested for it; this is recorded,
// and browsers do not cache that page. Pages change no state: they name the command that
// does.
package statepages
