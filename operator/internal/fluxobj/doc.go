// SPDX-License-Identifier: Apache-2.0

// Package fluxobj writes objects of a cluster that belong to the operator, and leaves
// other objects alone. It also reads the status of Flux's objects. It holds what
// executors have in common; code that uses a particular executor imports fluxexec.
//
// # Ownership
//
// Objects that the operator created have the label okara.dev/managed, and okara.dev/uid
// with the UID of the object that they were created for. An object of the same name
// without these labels was created by another user, possibly to mislead the operator: an
// account, say, or a Secret that a run would read.
//
// # Objects of Flux
//
// An object is first written by a create, so that an existing object is left alone unless
// it is the operator's for the same UID. A server-side apply over another user's object
// would keep its fields, such as the image of a runner. Later writes are server-side
// applies by field owner [Owner]. An object that is up to date is not written.
//
// # Namespaces of runs
//
// A [RunNamespace] is provisioned for runs with the operator's right to the Secrets
// there, the account that runs modules with its right, and a NetworkPolicy. The policy
// allows ingress from tofu-controller only, and egress to everything except the identity
// service of the node. The operator may bind the ClusterRoles okara-operator-secrets and
// okara-runner. It has and grants rights to Secrets only by these bindings, a namespace
// at a time.
package fluxobj
