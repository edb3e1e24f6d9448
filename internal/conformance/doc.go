// SPDX-License-Identifier: Apache-2.0

// Package conformance runs okara's packages on registries that are not built into the
// tests of the root module: olareg, go-containerregistry's, the distribution program as a
// process of its own, and every registry named in OKARA_TEST_REGISTRIES (space-separated
// HOST[/PREFIX], used with the caller's Docker credentials).
//
// It is a separate module because of the dependencies of those registries.
package conformance
