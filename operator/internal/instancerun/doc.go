// SPDX-License-Identifier: Apache-2.0

// Package instancerun carries out the attempts of instances with Flux, in the namespace of
// the instance: a module by a Terraform of tofu-controller, with its state in okara serve, a
// chart by a HelmRelease of helm-controller, whose account may edit that namespace and
// nothing else.
//
// All that an attempt needs (the account, its rights, tokens, credentials, the source) is
// ensured at each reconcile, since a Terraform cannot even be deleted without its source
// and its Secrets. The order of destruction is that of kubernetes.md: the Terraform, then
// the state, which must have no resources, then all else.
package instancerun
