// SPDX-License-Identifier: Apache-2.0

// Package instancerun carries the attempts of instances out with Flux, in the namespace of
// the instance: a module by a Terraform of tofu-controller, with its state in okara serve, a
// chart by a HelmRelease of helm-controller, whose account may edit that namespace and
// nothing else.
//
// Whatever an attempt needs (the account, its rights, tokens, credentials, the source) is
// made sure of each time that somebody looks, since a Terraform cannot even be deleted
// without its source and its Secrets. The order of an end is that of kubernetes.md: the
// Terraform, then the state, which has to be without resources, then all else.
package instancerun
