// SPDX-License-Identifier: Apache-2.0

// Package pieces tells what a version of a module or provider consists of in its
// repository: what of it may be handed to somebody who may have this version and not
// the others beside it.
//
// These are the manifest of the version, the manifests and blobs that it leads to,
// what refers to any of these manifests, such as reports and signatures, and the tags
// that are about the version. Whose word a manifest is does not matter here: a digest
// that it names is read in this repository only.
package pieces
