// SPDX-License-Identifier: Apache-2.0

// Package fluxrun ends the runs of modules, whatever they were made for: an object of a
// generated kind, or an Instance.
//
// The order of an end is always the same. The Terraform is deleted and waited for, while
// all that its last run reads is kept there. The state is deleted if it has no resources.
// Then the source, the Secrets and the copies go. What lies in a namespace that is gone,
// or going, counts as removed: the right to look there goes with it.
package fluxrun
