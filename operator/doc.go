// SPDX-License-Identifier: Apache-2.0

// Package operator opens the operator of okara: the folder is a Go module of its own, so
// that the libraries of Kubernetes stay out of okara's command.
//
// The kinds of the cluster are in api/v1alpha1. Three groups of packages below internal
// reconcile them:
//
//   - A registry is kept filled by Depots, Modules, Providers and Versions: registryctl,
//     over the same engine as depot files.
//   - Templates and Instances have the life cycle of the instances platform: instancectl
//     drives its state machine on objects, instancerun carries out the attempts, and
//     portalserve is the JSON API with its pages.
//   - A ModuleKind makes a kind of a module: kindspec translates the module's inputs to a
//     schema, kindctl installs the kind, kindrun keeps each object in step.
//
// Runs are carried out by Flux: fluxrun and fluxexec build its objects, fluxobj writes
// them, runaccess gives a run its namespace and token, and plangate lets only approved
// changes be applied. What an object waits for is explained by verdict and explain.
//
// The program is cmd/okara-operator. The tests with a real cluster are in rig.
package operator
