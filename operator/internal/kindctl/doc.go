// SPDX-License-Identifier: Apache-2.0

// Package kindctl makes kinds of ModuleKinds, and has their objects carried out.
//
// A definition becomes, in this order: a version of its module, found in the registry; a
// CRD with the schema of that version; two ClusterRoles; and a watch of the objects, each
// of which package kindrun carries out. Nothing of it is undone where a later step fails:
// a definition that became invalid, or a registry that is away, leave the kind as it was,
// and its objects go on.
//
// # Schemas
//
// A new schema is written only if each object is valid under it; the API server's own
// code is asked. Else the definition says SchemaNarrowed, and schema and version stay.
//
// # Changes
//
// An object has the version of its status.module, and of the definition what its
// status.definition names: a digest of all that a run is made of. What objects still have
// is kept in a ConfigMap beside the operator, so that one that waits in the queue goes on
// as it was, with fresh tokens. A change, of either, reaches spec.upgrade.maxConcurrent
// objects at a time, and no further one once one of them is Stalled. A new object has what
// is current at once, and so has one whose spec.runOptions.version asks for a version.
//
// # Removal
//
// A definition stays while there are objects. The CRD goes before the watch ends, so that
// an object that comes at the last moment is destroyed as any other.
package kindctl
