// SPDX-License-Identifier: Apache-2.0

// Package pieces determines the content of a version of a module or provider in its repository: the
// content that may be served to a caller that may read this version but not the others beside it.
//
// The content consists of the manifest of the version, the manifests and blobs that it leads to,
// the referrers of these manifests, such as reports and signatures, and the tags about the version.
// It does not matter who wrote a manifest: a digest that it names is read only in this repository.
package pieces
