// SPDX-License-Identifier: Apache-2.0

// Package doctor tests the guarantees of a registry: whether it can keep locks, and
// what it can delete. [Examine] writes a few hundred small tags, removes them as far
// as the registry allows, and returns a report with a verdict.
//
// # The litmus test
//
// A lock is safe if, of two writers that each push a tag and then list the tags, at
// least one sees the other (package statebackend has the argument). So two
// connections do exactly that at the same time, a few hundred times. A round in which
// neither sees the other refutes the registry. A round in which a writer does not
// see its own tag shows a delayed list; locks then wait until the list has settled.
//
// The test can refute a guarantee but cannot prove it. So what is known of a hosted
// service by its name takes precedence over a test that found no fault. A peer, which
// is another host of the same registry, tests replication between regions, which two
// connections to one host never exercise.
//
// # The other checks
//
// Each check writes something, reports what it observed, and says what follows from it.
// Locks do not rely on create-only PUT: one refusal does not prove that the registry
// distinguishes two requests that arrive at once.
//
// # What stays behind
//
// Tags start with "okara-probe-" and a random part, except state-ws-okara-doctor: tag
// rules of a registry match names, so that one has the form of a state's tag. Where
// nothing can be deleted, the rounds run in the repository REPOSITORY/okara-doctor, which
// can be removed as a whole. Where that cannot be created either, fewer rounds run in the
// repository itself, since their tags stay in the list that every lock reads.
//
// With [Options.Record] the verdict is stored in the repository, where every lock looks
// for it. A registry that is moved behind a cache must be examined again.
package doctor
