// SPDX-License-Identifier: Apache-2.0

// Package records reads and writes what an instance leaves in its repository besides its
// state.
//
// Its tags contain the ID of the instance (run.go): source-<id>-<n> is what runs from n
// on execute, run-<id>-<n>-<a> the report of an attempt, log-<id>-<n>-<a> its log so far,
// record-<id> the final record. The catalogue has an entry too (instance_entry.go). All
// but the source is sealed with the state keys, bound to repository and tag
// ([artifact.Seal]).
package records
