// SPDX-License-Identifier: Apache-2.0

// Package doctor tests what a registry guarantees: whether locks can be kept in
// it, and what it can delete. [Examine] writes a few hundred small tags, removes
// them as far as the registry lets it, and gives a report with a verdict.
//
// # The litmus test
//
// A lock is safe if, of two writers that each push a tag and then list the tags,
// at least one sees the other (package statebackend has the argument). So two
// connections do just that at the same time, a few hundred times. A round in which
// neither sees the other refutes the registry. A round in which a writer does not
// see its own tag shows a delayed list; locks then wait until it has settled.
//
// The test can refute and cannot prove. So what is known of a hosted service by
// its name goes before a test that found no fault. A peer, which is another host
// of the same registry, tests replication between regions: two connections to one
// host never meet it.
//
// # The other checks
//
// Each writes and finds out one thing, and says what follows from it: push and
// pull, a tag that is pushed again, the tag list after a push, a cache before the registry, PUT that only
// creates, referrers, deletes by tag and by digest. Locks do not rely on
// create-only PUT: one refusal does not prove that two at once are distinguished.
//
// # What stays behind
//
// Tags start with "okara-probe-" and a random part, but for one, state-ws-okara-doctor.
// Rules of a registry about tags go by names, so that one has the form of a state's. Where nothing can be deleted,
// the rounds run in the repository REPOSITORY/okara-doctor, which can be removed
// as a whole; where that cannot be made either, fewer rounds run in the repository
// itself, since their tags stay in the list that every lock reads.
//
// With [Options.Record] the verdict is kept in the repository, where every lock
// looks for it. A verdict is of its day: a registry that is moved behind a cache
// must be examined again.
package doctor
