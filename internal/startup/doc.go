// SPDX-License-Identifier: Apache-2.0

// Package startup lets a command start without a garbage collection. The values
// that packages create during initialisation, and the tree of commands, exceed
// the 4 MiB after which Go collects for the first time: two collections would
// run in every start. A program imports the package only for this effect.
//
// It takes effect early. Of the packages whose imports are all initialised, Go
// initialises the one whose path sorts first (The Go Programming Language
// Specification, "Program initialization"), and this one imports four packages
// of the standard library. TestCost of internal/e2e checks that this is early
// enough: it counts the collections of a start, which must be zero.
package startup
