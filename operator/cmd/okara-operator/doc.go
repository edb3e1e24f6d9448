// SPDX-License-Identifier: Apache-2.0

// Command okara-operator makes a registry hold what the objects of a Kubernetes
// cluster say. Its command run starts the controllers; what they do is said in package
// registryctl. Its command render prints the objects by which Flux runs a module, as
// package fluxexec builds them, and connects to nothing.
//
// Flags are checked before anything is connected to. Exit codes are those of okara:
// 1 is a failure, 2 a mistake on the command line. A process that is told to end ends
// what it does, gives its lease back and returns 0, since that is how a pod stops; one
// that loses its lease returns 1, so that it is started anew.
package main
