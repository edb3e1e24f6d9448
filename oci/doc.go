// SPDX-License-Identifier: Apache-2.0

// Package oci is okara's client for OCI registries, the only package that sends requests to one. It
// reads and writes manifests, blobs, tags and referrers of one repository at a time. Package
// oci/artifact defines the layout of okara's artifacts.
//
// # Model
//
// A [Client] is one identity at one registry; a [Repo] is one of its repositories, with blobs and
// manifests, each named by the digest of its bytes, and tags, movable names for manifests.
// Everything but tags can be written twice and read from anywhere, and is checked against its
// digest on every read. Only a tag can be contested by two writers. So content that must survive
// gets a tag of its own, and a tag that others rely on is written once.
//
// An artifact is pushed bottom up (blobs, manifests by digest, tag), so a visible tag always names
// a complete artifact. [Repo.Push] does all but the tag:
//
//	root, err := repo.Push(ctx, oci.Artifact{Blobs: blobs, Root: manifest})
//	…
//	err = repo.PutTag(ctx, "1.4.0", manifest)
//
// # Requests
//
// Callers count requests, so the doc comment of each method says what it sends. The client sends no
// GET of /v2/ beforehand and no HEAD before a PUT: a 401 with a challenge starts the token
// exchange. Tokens are kept per repository and set of actions, and renewed before they expire and
// when they are refused; if parallel requests are refused, one of them fetches the new token for
// all. A blob that another repository of the registry has ([Blob].From) is mounted with one POST. A
// small blob takes one POST if the registry supports it ([Options].SinglePost). Credentials never
// go to another host: not with a redirect of a blob, a Link header, or the Location of an upload.
//
// Only transport.go retries. Reads, the opening of an upload and writes by digest are repeated with
// back-off, jitter and Retry-After. An upload that breaks starts again; a download continues where
// it broke. The PUT or DELETE of a tag is sent once, and again only after 429, which says that the
// request was refused (RFC 6585). If its answer is lost, or is a server error, the error is
// [ErrUncertain], and the caller decides after reading the tag.
//
// Loopback hosts may use plain http without a flag, which one TLS handshake on a separate
// connection finds out, so that no request has to be sent twice.
//
// # Registries differ
//
// Each difference that the client works around is a quirk in internal/ocitest. A registry may
// refuse or ignore a mount: then the blob is sent through this process without being stored
// locally. It may refuse to delete by tag, by digest or at all ([ErrUnsupported]): nothing here
// relies on deletion. Tag lists may come in pages of any size and order, repeat their last link, or
// be out of date: [Repo.Snapshot] returns what callers need to judge that. The digest header may be
// missing: bytes are always hashed. A digest may answer 404 for some seconds after its push: such a
// read is repeated for a minute. The referrers API may be missing: the client maintains the
// fallback tag of the specification.
//
// # Errors
//
// Every error wraps one of the sentinels in errors.go. [ResponseError] holds the registry's own
// message. Text in it that looks like a credential, or that this client has sent as one, is
// blanked: some registries repeat the headers of a request that they refuse.
//
// # Limits
//
// If two writers update the fallback referrers index at the same time, one entry may be lost from
// the list, but not from the registry ([Repo.PutReferrer]). A token server on a private address is
// accepted under the registry's own host name, or if the registry is on one as well (realm.go).
//
// # What oras-go lacks
//
// Authentication is oras-go's, since a mistake there would leak credentials; its token cache is
// replaced (auth.go). Its remote.Repository is not used. In version 2.7.0:
//
//   - A blob takes a POST and a PUT, never the POST alone, and comes from an io.Reader, which a
//     second attempt cannot open again. A Location on another host is an error; here it gets the
//     bytes and no credential.
//   - A download does not continue after a break, accepts compressed bytes, and cannot pass a
//     redirect on.
//   - A HEAD without a digest or a size is an error; here a GET follows. A GET without a size
//     costs a HEAD.
//   - The first Link is followed whatever its rel, also when it repeats, and one with the scheme
//     of a proxy is refused. Date and Age of a list are lost. A page that breaks off is not read
//     again; one that is too large looks like broken JSON.
//   - The fallback index is not read again after it was written, and an answer once without the
//     referrers API switches the repository for good.
//   - A tag cannot be deleted without its manifest.
//   - What is wrong with an answer is an error without a type, so that [ErrCorrupt] could not be
//     told from the rest.
//
// A chunked upload would save bytes when a large push breaks, but registries differ most in them,
// and starting again always works.
package oci
