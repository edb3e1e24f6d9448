// SPDX-License-Identifier: Apache-2.0

// Package cli has what the commands of okara share, in the core and for instances: streams,
// common flags, access to a registry or a server, how a result is printed, and how a
// command line ends.
//
// [Run] executes one command line. It alone turns the error of a command into an exit code
// and a message: [ExitError] sets a code that the error itself does not imply, [WithHint]
// adds advice. Results go to stdout, one line per thing or one JSON document with --json;
// everything else goes to stderr.
package cli
