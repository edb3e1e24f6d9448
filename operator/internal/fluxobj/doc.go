// SPDX-License-Identifier: Apache-2.0

// Package fluxobj writes objects of a cluster that belong to the operator, and leaves those
// of others alone; and it reads what Flux says of its own. Who names an executor imports
// fluxexec; this is what executors have in common.
//
// # Whose an object is
//
// What the operator made has the label okara.dev/managed, and okara.dev/uid with the UID of
// the object that it was made for. An object of the same name without them was made by
// somebody who may have meant it for us: an account, say, or a Secret that a run would
// read.
//
// # Objects of Flux
//
// An object is made by a create, so that one which is there already is left alone unless
// it is the operator's for the same UID: a server-side apply over an object that somebody
// made before would keep what he put in it, such as the image of a runner. Later writes
// are server-side applies of field owner [Owner]. An object that is as it should be is
// not written.
//
// # Namespaces of runs
//
// A [RunNamespace] is provisioned for runs: the right of the operator to the Secrets there, the
// account that runs modules with its right, and a NetworkPolicy that lets nobody in but
// tofu-controller, and the run out to everywhere but the identity of its node. The
// operator may bind the ClusterRoles okara-operator-secrets and okara-runner, and has and
// gives no right to Secrets but by these bindings, a namespace at a time.
package fluxobj
