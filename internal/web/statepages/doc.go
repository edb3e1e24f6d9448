// SPDX-License-Identifier: Apache-2.0

// Package statepages is the pages of states: which there are, what is in a version, what
// differs between two, who holds a lock, and one masked value once it is asked for.
//
// Nobody sees more than the right to a workspace gives: what he may not read is neither
// listed nor counted. A masked value is on no page but the one that was asked for it,
// which is recorded and which no browser keeps. Pages change no state: they say which
// command does.
package statepages
