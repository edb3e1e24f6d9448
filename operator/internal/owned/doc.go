// SPDX-License-Identifier: Apache-2.0

// Package owned writes objects of a cluster that belong to the operator, and leaves
// those of others alone. What the operator made has the label okara.dev/managed, and
// okara.dev/uid with the UID of the object that it was made for. An object of the same
// name without them was made by somebody who may have meant it for us: an account, say,
// or a Secret that a run would read.
package owned
