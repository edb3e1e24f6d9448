// SPDX-License-Identifier: Apache-2.0

// Package doctor tests whether a registry can keep locks, and what it can delete. [Examine] writes
// a few hundred small tags, removes them as far as possible, and returns a report with a verdict.
//
// # The litmus test
//
// A lock is safe if, of two writers that each push a tag and then list the tags, at least one sees
// the other (package statebackend has the argument). So two connections do that at the same time, a
// few hundred times. A round in which neither sees the other refutes the registry. If a writer does
// not see its own tag the list is delayed, and locks wait until it has settled.
//
// A test can refute a guarantee but not prove it. So what is known of a hosted service by its name
// takes precedence. A peer, another host of the same registry, tests replication between regions.
//
// # The other checks
//
// Each check writes something, reports what it observed, and says what follows from it.
//
// # What stays behind
//
// Tags start with "okara-probe-" and a random part, except state-ws-okara-doctor, which has the
// form of a state's tag because registries have rules for names. Where nothing can be deleted, the
// rounds run in the repository REPOSITORY/okara-doctor, which can be removed as a whole. Where that
// cannot be created either, fewer rounds run here, since their tags stay in the list that every
// lock reads.
//
// With [Options.Record] the verdict is stored in the repository, where every lock looks for it. A
// registry that is moved behind a cache must be examined again.
package doctor
