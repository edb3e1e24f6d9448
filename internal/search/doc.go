// SPDX-License-Identifier: Apache-2.0

// Package search finds modules, providers, mirrored providers and templates by their
// words. An [Index] makes no requests: it is built from entries that were read before, is
// never changed, and serves any number of searches without locks.
//
// # Visibility
//
// Every answer is made from a [View], the part of an index that one set of rights may
// read: hits, their order, their number and the suggestions for a misspelt word. So an
// answer reveals nothing of entries that the caller may not read.
//
// # Words of a search
//
// A term is one word of a query, and every term must match. An entry matches by its
// address, its name, words of its address, then of its description, then by the names of
// its inputs and the types of its resources, in the newest version. Entries with matches
// earlier in this list rank higher. A term that no entry of the view has stands for the words
// between its punctuation.
//
// # Limits of a search
//
// An index is kept in the registry and read back, so anyone who can write to the registry
// can change it: [DecodeEntries] bounds the number of entries and cuts each field. An
// index is derived, and decides nothing: which versions exist, and whether they may be
// downloaded, is never taken from it.
package search
