// SPDX-License-Identifier: Apache-2.0

// Package search finds modules, providers, mirrored providers and templates by
// their words. An [Index] asks nobody: it is made of entries that somebody
// read, is never changed, and is read by any number of searches without locks.
//
// # Who finds what
//
// Every answer is made from a [View], the part of an index that one set of rights
// may read: hits, their order, their number and what is near a misspelt word. So
// nothing tells of what somebody may not read.
//
// # Words of a search
//
// A term is one of the words of a query, and every one must fit. An entry fits by
// its address, its name, words of its address, then of its description, then by
// the names of its inputs and the types of its resources, in the newest version.
// The better the place, the higher the entry.
//
// # Limits of a search
//
// An index is kept in the registry and read back, so whoever writes there writes
// it: [DecodeEntries] bounds the number of entries and cuts each field. It is derived, and
// decides nothing: what versions there are, and whether they may be had, is never
// taken from it.
package search
