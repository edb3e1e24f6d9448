// SPDX-License-Identifier: Apache-2.0

// Package repotest holds the rules of this repository as ordinary tests: who
// may import whom, what every file carries, what the top folder holds. A rule
// that only people check is forgotten; a failing test names the file, the rule
// and the reason.
//
// The package exports nothing.
package repotest
