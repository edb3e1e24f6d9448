// SPDX-License-Identifier: Apache-2.0

// Package pages does what the pages about Kubernetes say, word by word: with kubectl and
// Helm, Flux's controllers and okara's two programs, on an API server, as the users that
// the pages name. It has tests only; make interop-kube runs them.
//
// What is done with a block of a page stands behind its language:
//
//	sh cluster [USER]       runs, as an administrator or as USER
//	yaml NAME               is a file of that name for the blocks below
//	yaml apply [USER]       is applied
//	sh example, yaml example   not here; the test says why
//
// USER is a name, or group:NAME for somebody of a group.
package pages
