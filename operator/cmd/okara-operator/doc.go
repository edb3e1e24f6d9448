// SPDX-License-Identifier: Apache-2.0

// Command okara-operator makes a registry hold what the objects of a Kubernetes cluster
// declare. Its command run starts the controllers, which package registryctl documents.
// Its command render prints the objects by which Flux runs a module, as package fluxexec
// builds them, and makes no connections.
//
// Flags are checked before any connection is made. Exit codes are those of okara: 1 is a
// failure, 2 a mistake on the command line. A process that is told to stop finishes its
// work, releases its lease and returns 0, since that is how a pod stops. A process that
// loses its lease returns 1, so that it is restarted.
package main
