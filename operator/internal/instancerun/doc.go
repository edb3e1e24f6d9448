// SPDX-License-Identifier: Apache-2.0

// Package instancerun carries the attempts of instances out with Flux: a module by a
// Terraform of tofu-controller, in the namespace of the instance, with its state in okara
// serve.
//
// Whatever an attempt needs (the account, its rights, tokens, credentials, the source) is
// made sure of each time that somebody looks, since a Terraform cannot even be deleted
// without its source and its Secrets. The order of an end is that of kubernetes.md: the
// Terraform, then the state, which has to be without resources, then all else.
package instancerun
