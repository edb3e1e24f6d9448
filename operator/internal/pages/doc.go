// SPDX-License-Identifier: Apache-2.0

// Package pages executes the documentation pages about Kubernetes literally: with kubectl
// and Helm, Flux's controllers and okara's two programs, on an API server, as the users
// that the pages name. It contains only tests; make interop-kube runs them.
//
// The info string of a code block says what is done with it:
//
//	sh cluster [USER]       run it, as an administrator or as USER
//	yaml NAME               save it as a file of that name for later blocks
//	yaml apply [USER]       apply it
//	sh example, yaml example   skip it; the test says why
//
// USER is a name, or group:NAME for a member of a group.
package pages
