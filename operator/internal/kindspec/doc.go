// SPDX-License-Identifier: Apache-2.0

// Package kindspec makes a kind of a module: of a definition, which is a ModuleKind, and
// a version of its module it makes the CRD and the roles of the kind, and of each object
// a run of package fluxexec; and of what is seen of that run the object's status. It is
// pure: it asks no cluster and no registry, and the same is the same, byte for byte.
//
// # The schema
//
// What spec of an object may be says the JSON Schema that the description of the module
// has of its inputs. A CRD knows less than JSON Schema: what it cannot say is dropped
// where the module says it again (types in a tuple), and refused with its path where the
// module would not. A kind accepts what its module accepts, and refuses what that
// refuses; the fuzz target holds one against the other. Where the two differ:
//
//   - A string without a bound has at most 4096 characters, a list and a map at most 1000
//     elements, so that rules in CEL stay within the API server's budget.
//   - An attribute that the module does not know is pruned, or refused where the client
//     wants it, as the API server does everywhere.
//   - A sensitive input is never a value: NAMEFrom names a key of a Secret.
//   - A default that the schema itself would refuse is left to the module.
//
// What the API server would say of the CRD is asked of its own code before anything is
// written, cost of rules included.
//
// # Versions
//
// The schema is the one of the version that new objects get. An object that still runs
// an earlier one keeps it, and may set inputs that it does not know: the tool says so
// and goes on.
package kindspec
