// SPDX-License-Identifier: Apache-2.0

// Package verdict reports the state of objects in the same way for all kinds: by the
// conditions of kstatus, an event when something goes wrong, and metrics of both.
//
// Reconciling and Stalled exist only while they are true. An object that is being deleted
// is not Ready, whatever is left of it.
package verdict
