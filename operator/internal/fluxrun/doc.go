// SPDX-License-Identifier: Apache-2.0

// Package fluxrun carries runs out, whatever they are made for: an object of a generated
// kind, or an Instance.
//
// What a run reads is made sure of each time that somebody looks, since a Terraform cannot
// even be deleted without its source and its Secrets: the account and its rights, the state
// and its token, copies of Secrets. Then come the objects of Flux. Each step finds what an
// earlier call made, so that the operator may be killed between any two.
//
// The order of an end is always the same. The Terraform is deleted and waited for, while
// all that its last run reads is kept there. The state is deleted if it has no resources.
// Then the source, the Secrets and the copies go. What lies in a namespace that is gone,
// or going, counts as removed: the right to look there goes with it.
package fluxrun
