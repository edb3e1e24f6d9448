// SPDX-License-Identifier: Apache-2.0

// Package startup lets a command begin without collecting garbage. What packages make
// when they are initialised, and the tree of commands, take more than the 4 MiB after
// which Go collects for the first time: that would happen twice in every start. A program
// imports the package for this effect alone.
//
// It acts early. Of the packages whose imports are all initialised, Go initialises the one
// whose path sorts first (The Go Programming Language Specification, "Program
// initialization"), and this one imports four packages of the standard library. That this
// is early enough shows TestCost of internal/e2e, which counts the collections of a start:
// none.
package startup
