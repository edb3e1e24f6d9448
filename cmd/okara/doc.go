// SPDX-License-Identifier: Apache-2.0

// Command okara keeps OpenTofu and Terraform modules, providers and state in
// an OCI registry.
//
// A command file turns flags into one call of a package, prints the result and
// returns the error; internal/cli maps errors to exit codes. Results go to stdout,
// one line per thing or one JSON document with --json; everything else goes to
// stderr. The tree of commands is on one page, root.go.
package main
