// SPDX-License-Identifier: Apache-2.0

// Package records says what an instance leaves in its repository beside its state, and
// reads and writes it over package oci.
//
// It lies under tags that have the id of the instance (run.go): source-<id>-<n> is what
// runs from n on execute, run-<id>-<n>-<a> how an attempt ended, log-<id>-<n>-<a> its log
// so far, record-<id> the record at its end, and the catalogue has an entry
// (instance_entry.go). All but the source is sealed with the state keys, bound to
// repository and tag ([artifact.Seal]).
package records
