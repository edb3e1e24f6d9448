// SPDX-License-Identifier: Apache-2.0

// Package operator opens the operator of okara: the folder is a Go module of its own, so
// that the libraries of Kubernetes stay out of okara's command.
//
// The kinds of the cluster are in api/v1alpha1. Three groups of packages below internal
// reconcile them:
//
//   - A registry is kept filled by Depots, Modules, Providers, Versions and Approvals, and
//     AccessRules say who may read and publish: registryctl, over the same engine as depot
//     files.
//   - Templates and Instances have the life cycle of the instances platform: instancectl
//     drives its state machine on objects, instancerun carries out the attempts, and
//     portalserve is the JSON API with its pages.
//   - A ModuleKind turns a module into a kind of the cluster: kindspec translates the
//     module's inputs to a schema, kindctl installs the kind, kindrun keeps each object in
//     step.
//
// Flux carries out runs of modules and charts: fluxrun prepares, applies and ends a run,
// fluxexec builds the objects of Flux and reads their progress, fluxobj writes objects and
// leaves those of other users alone, runaccess gives a run its namespace and token, and
// plangate lets only approved changes be applied. Package records keeps what a restored
// backup would lack. Package verdict sets conditions, events and metrics; explain prints for
// a user what an object waits for.
//
// The program is cmd/okara-operator. The tests with a real cluster are in rig.
package operator
