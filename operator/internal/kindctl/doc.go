// SPDX-License-Identifier: Apache-2.0

// Package kindctl creates kinds from ModuleKinds, and has their objects reconciled.
//
// A definition becomes, in this order: a version of its module, found in the registry; a
// CRD with the schema of that version; two ClusterRoles; and a watch of the objects, each
// of which package kindrun reconciles. Nothing is undone if a later step fails: if a
// definition becomes invalid or the registry is unavailable, the kind stays as it was, and
// its objects continue.
//
// # Schemas
//
// A new schema is written only if each object is valid under it, as checked by the API
// server's own code. Else the definition says SchemaNarrowed, and schema and version stay.
//
// # Changes
//
// status.module of an object is its version, and status.definition its revision of the
// definition: a digest of all that a run takes from it. A ConfigMap beside the operator
// keeps the revisions of objects, so that a waiting object continues unchanged, with
// fresh tokens. A change of either goes to spec.upgrade.maxConcurrent objects at a time,
// and to no further one once one of them is Stalled. A new object gets what is current at
// once, and one whose spec.runOptions.version asks for a version gets that at once.
//
// # Removal
//
// A definition stays while there are objects. The CRD goes before the watch ends, so that
// an object created at the last moment is destroyed like any other.
package kindctl
