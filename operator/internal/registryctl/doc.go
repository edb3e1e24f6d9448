// SPDX-License-Identifier: Apache-2.0

// Package registryctl makes a registry hold what the objects of a cluster declare (Depots,
// Modules, Providers and their Versions), and makes its front-end grant the rights of
// AccessRules.
//
// # One engine
//
// A Module or Provider is one entry of a depot file, and a run of it is a run of
// package supply with that entry alone and a record of its own. So this operator,
// okara depot apply and okara publish put the same bytes into a registry, and each
// adopts what another published. The registry is the source of truth: a status reports
// what the last run found, and no run relies on it. After an operator was killed, the
// next run continues its work, because a run does only what is missing.
//
// # One writer
//
// The controller of an entry also creates and reads its Versions, and writes their
// statuses; a change of a Version wakes the controller of its target. A Version without a
// target is an entry itself, with a status of its own. A Depot only creates entries. Each
// reconcile of an entry is a run, at its turn: a new leader waits for that, too.
//
// # Address ownership
//
// The address of a module begins with its namespace. An annotation, set by administrators,
// lists the other addresses that a namespace may use. Of several objects with one address,
// the oldest one that may use it holds it, but Versions of one namespace share an address
// and take turns with its record. The record in the registry names the namespace by UID,
// so a namespace created anew under an old name does not inherit the address.
//
// # Queue
//
// A run needs a slot. Slots are few, and fewer for each origin. An entry without a slot
// frees its worker and is woken when it gets one; namespaces take turns. A slot is for a
// run and not for a request: a run that held a slot for one request and waited for one for
// the next could wait for itself.
//
// # Rules
//
// All AccessRules become one file, which the front-end reads as its rules_file. Each rule
// is checked against the addresses its namespace may use and parsed with the parser of the
// front-end, so that no namespace can break the file for all.
//
// # Alternatives considered
//
// Writing Modules and Providers by server-side apply: the fields an object was created
// with belong to the manager of the create, and a later apply of the same manager
// cannot remove them. An update of the spec with the version that was read can, and
// keeps the metadata that others wrote.
//
// A separate controller for Versions: both controllers would write one status, and both
// would read the same list of the registry.
package registryctl
