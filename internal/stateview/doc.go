// SPDX-License-Identifier: Apache-2.0

// Package stateview is the states of a server as people look at them: which there
// are, who holds a lock, what was written when, and what is in a version.
//
// # Which states there are
//
// Registries rarely list their repositories, and the catalog of artifacts is read
// by many who may not know the names of states. So the names come from three places,
// added up: entries in the queue repository, which a server writes once when it
// first stores a state ([States.Wrote]); settings; and the list of the registry,
// where it has one. Who may see which of them is for the caller to decide.
//
// # What it costs
//
// The tag list of a repository is kept for five seconds, then renewed behind the back of
// those who ask. A version never changes but for the keys it is sealed with, so what
// its manifest says is kept for ten minutes, and what is in it, by its digest, as long
// as there is room. A workspace costs the tag list, the manifest of its newest version
// and its blob, and one more if somebody holds its lock; a history one manifest a row.
//
// Copies and verdicts of okara doctor are marks that no list names, so each repository
// costs a tag list once in ten minutes while somebody asks for them: [States.Marked].
//
// # What is not looked into
//
// A state that OpenTofu encrypted, one that is sealed with keys which this server
// does not have, and one of more than 64 MiB or 100 levels: of those only what the
// manifest says is shown. [Document].Why says which it is.
//
// # Limits
//
// Values are in the memory of the process for as long as their state is kept there,
// sensitive ones too, as they are while it serves a state.
package stateview
