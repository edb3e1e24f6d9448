// SPDX-License-Identifier: Apache-2.0

// Package driver carries out on this machine what the state machine of package lifecycle
// decides.
//
// A [Driver] works where this replica leads, and keeps no state beside the document:
// what one leader leaves unfinished the next one finds there. It starts what a commit
// decided and never before that commit: attempts, each watched until it has ended, and
// other effects (notices, the final record, the removal of tags), which are retried until
// they succeed. Each reconcile commits, at once, all changes that time and templates make
// due. All that it sends may be sent twice: sources, records and jobs have unique names,
// the executor starts an attempt only once, and a result counts only for the attempt that
// the record names.
//
// What runs left in the registry, such as logs, plans and states, is read in workspace.go.
package driver
