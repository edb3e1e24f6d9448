// SPDX-License-Identifier: Apache-2.0

// Package kindspec makes a kind of a module: of a definition, which is a ModuleKind, and
// a version of its module it makes the CRD and the roles of the kind, and of each object
// a run of package fluxexec. It makes no request to a cluster or a registry, and the same
// input gives the same result, byte for byte.
//
// # The schema
//
// The schema of an object's spec comes from the JSON Schema of the inputs in the
// description of the module. A CRD can express less than JSON Schema: what it cannot
// express is dropped if the module checks it itself (types in a tuple), and else refused
// with its path. A kind accepts what its module accepts, and refuses what that refuses;
// the fuzz target compares the two. They differ in these points:
//
//   - A string without a bound has at most 4096 characters, a list and a map at most 1000
//     elements, so that rules in CEL stay within the API server's budget.
//   - An attribute that the module does not know is pruned, or refused if the client
//     wants it, as the API server does everywhere.
//   - A sensitive input is never a value: NAMEFrom names a key of a Secret.
//   - A default that the schema itself would refuse is left to the module.
//
// The API server's own code checks the CRD, including the cost of its rules, before
// anything is written.
//
// # Versions
//
// The schema is that of the version that new objects get. An object that still runs
// an earlier version keeps it, and may set inputs that this version does not know: the tool
// reports them and goes on.
package kindspec
