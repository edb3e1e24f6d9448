// SPDX-License-Identifier: Apache-2.0

// Package tofutest talks to a server exactly as OpenTofu and Terraform do, and
// holds the suites that any server of their registry protocols must pass.
//
// A [Client] does what the tools do between reading a source address and
// having verified bytes: it follows the same URLs, accepts the same statuses
// and refuses the same answers. What the two tools do differently is a field
// of [Tool]; both tools are in facts.go, with the observations that the
// client's code is made from. The suites [RunModules], [RunProviders] and
// [RunMirror] run one server through both tools.
//
// The client is not the judge. Whether stock tools agree with it is shown by
// the tests that run them.
package tofutest
