// SPDX-License-Identifier: Apache-2.0

// Package runhome furnishes namespaces for runs: the right of the operator to the
// Secrets there, the account that runs modules with its right, and a NetworkPolicy that
// lets nobody in but tofu-controller, and the run out to everywhere but the identity of
// its node.
//
// The operator may bind the ClusterRoles okara-operator-secrets and okara-runner, and
// has and gives no right to Secrets but by these bindings, a namespace at a time.
package runhome
