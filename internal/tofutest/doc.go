// SPDX-License-Identifier: Apache-2.0

// Package tofutest talks to a server exactly as OpenTofu and Terraform do, and contains
// the suites that any server of their registry protocols must pass.
//
// A [Client] does what the tools do between reading a source address and having verified
// bytes: it follows the same URLs, accepts the same statuses and refuses the same
// responses. Differences between the two tools are fields of [Tool]. Both tools are in
// facts.go, with the observations on which the client's code is based. The suites
// [RunModules], [RunProviders] and [RunMirror] run one server through both tools.
//
// The client is not the reference. Tests that run the stock tools check that it agrees
// with them.
package tofutest
