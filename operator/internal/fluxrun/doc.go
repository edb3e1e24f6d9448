// SPDX-License-Identifier: Apache-2.0

// Package fluxrun carries out runs for objects of generated kinds and for Instances.
//
// Everything that a run reads is ensured on each reconcile, since a Terraform cannot even
// be deleted without its source and its Secrets: the account and its rights, the state
// and its token, and copies of Secrets. Then come the objects of Flux. Each step finds
// what an earlier call created, so the operator may be killed between any two steps.
//
// The order of a deletion is always the same. The Terraform is deleted and waited for,
// while everything that its last run reads is kept. The state is deleted if it has no
// resources. Then the source, the Secrets and the copies are removed. The contents of a
// namespace that is gone or being deleted count as removed, since the right to look there
// is gone, too.
package fluxrun
