// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the kinds of the group okara.dev: what a cluster wants the
// registry to hold. The registry is the truth about what it holds, so a status
// repeats what was found there at the last run, and nothing reads it back.
//
// Conditions follow kstatus. Ready says whether the registry has what the object
// asks for. Reconciling is True while the operator still tries. Stalled is True for
// what trying again does not cure: an object has to be changed.
//
// Lists in a status are bounded, so that an object stays small; truncated says that
// something was left out. No time in a status moves when nothing happened.
//
// +groupName=okara.dev
// +kubebuilder:object:generate=true
package v1alpha1
