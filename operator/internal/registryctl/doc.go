// SPDX-License-Identifier: Apache-2.0

// Package registryctl makes a registry hold what the objects of a cluster say:
// Depots, Modules, Providers and their Versions; and its front-end give the rights of
// AccessRules.
//
// # One engine
//
// A Module or Provider is one entry of a depot file, and a run of it is a run of
// package supply with that entry alone and a record of its own. So this operator,
// okara depot apply and okara publish put the same bytes into a registry, and each
// adopts what another published. The registry is the truth: a status says what the
// last run found, and nothing here reads it back. An operator that was killed
// continues with the next run, since a run does only what is missing.
//
// # One writer
//
// The controller of an entry also makes and reads its Versions, and writes their
// statuses; a Version that changes wakes the controller of its target. One without a
// target is an entry itself, and says what came of it. A Depot only makes entries. When a
// run is due is kept in memory: a new leader looks at everything once.
//
// # Whose address
//
// The address of a module begins with its namespace. What else a namespace may use
// says an annotation of it that administrators set. Of several objects with one
// address the oldest one that may have it does, but Versions of one namespace share it
// and take turns with its record. The record in the registry names the namespace by
// UID, so that one made anew under an old name does not inherit.
//
// # In turn
//
// A run takes a place, of which there are few, and fewer for each origin. An entry
// without a place leaves its worker and is woken when it has one, in turn by namespace.
// Places are those of runs and not of requests: a run that held one request and waited
// for the next could wait for itself.
//
// # Rules
//
// All AccessRules become one file, which the front-end reads as its rules_file. Each is
// checked against what its namespace may use, and the file with the parser of the
// front-end, so that no namespace breaks the file for all.
//
// # Alternatives considered
//
// Writing Modules and Providers by server-side apply: what an object was created
// with belongs to the manager of the create, and a later apply of the same manager
// cannot take it away again. An update of the spec with the version that was read
// does, and leaves alone what others have in the metadata.
//
// A controller of its own for Versions: both would write one status, and both would
// read the same list of the registry.
package registryctl
