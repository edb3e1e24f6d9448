// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 defines the kinds of the group okara.dev, by which a cluster declares
// what the registry should hold. The registry is the source of truth, so a status repeats
// what was found there in the last run, and nothing reads it back.
//
// Conditions follow kstatus. Ready says whether the registry has what the object
// declares. Reconciling is True while the operator is still trying. Stalled is True if
// trying again does not help: an object has to be changed.
//
// Lists in a status are bounded to keep objects small; truncated says that something was
// left out. No time in a status changes while nothing happens.
//
// +groupName=okara.dev
// +kubebuilder:object:generate=true
package v1alpha1
