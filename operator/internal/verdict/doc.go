// SPDX-License-Identifier: Apache-2.0

// Package verdict says what the operator thinks of an object, in one way for all kinds:
// the conditions of kstatus, an event when something goes wrong, and figures of both.
//
// Reconciling and Stalled are there only while they hold. What is being deleted is not
// Ready, whatever is left of it.
package verdict
