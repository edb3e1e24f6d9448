// SPDX-License-Identifier: Apache-2.0

// Package cli is what the commands of okara share, the core's and those of instances:
// streams, flags that many have, the way to a registry or a server, how a result is
// printed, and how a command line ends.
//
// [Run] executes one command line. Whatever a command returns as its error becomes
// an exit code and a message there, and nowhere else: [ExitError] names a code that
// the error does not tell, [WithHint] what helps. Results go to stdout, one line per
// thing or one JSON document with --json; everything else goes to stderr.
package cli
