// SPDX-License-Identifier: Apache-2.0

// Package repotest checks the rules of this repository as ordinary tests: allowed
// imports, required contents of every file, and the contents of the top folder. A rule
// that only reviewers check is forgotten; a failing test names the file, the rule and the
// reason.
//
// The package exports nothing.
package repotest
