// SPDX-License-Identifier: Apache-2.0

// Command okara-operator makes a registry hold what the objects of a Kubernetes
// cluster say. Its one command, run, starts the controllers; what they do is said in
// package registryctl.
package main
