// SPDX-License-Identifier: Apache-2.0

// Package oci is okara's client for OCI registries. It moves manifests, blobs,
// tags and referrers to and from one repository and counts its requests; no
// other package speaks to a registry. What the artifacts look like is in package
// oci/artifact.
//
// # Model
//
// A [Client] is one identity at one registry; a [Repo] is one repository of
// it. A repository holds blobs and manifests, each named by the digest of its
// bytes, and tags, which are names that point to a manifest and may move.
// Everything but tags is content-addressed: it may be written twice and read
// from anywhere, and is checked against its digest on every read. A tag is the
// only thing that two writers can fight over. So what must survive gets a tag
// of its own, and a tag that others rely on is written once.
//
// An artifact is pushed bottom up (blobs, manifests by digest, tag), so a tag
// that can be seen always names something complete. [Repo.Push] does all but
// the tag:
//
//	root, err := repo.Push(ctx, oci.Artifact{Blobs: blobs, Root: manifest})
//	…
//	err = repo.PutTag(ctx, "1.4.0", manifest)
//
// # Requests
//
// Callers count requests, so each method says what it sends. There is no GET
// of /v2/ before anything and no HEAD before a PUT: a repository is asked
// directly, and a 401 with a challenge starts the token exchange. Tokens are
// kept per repository and set of actions, renewed before they expire, and once
// when they are refused; of parallel refusals one fetches for all.
// A blob that another repository of the registry has ([Blob].From) is mounted with
// one POST, without its bytes; a small one takes one POST where the registry takes it so
// ([Options].SinglePost): the first one that has at most 64 KiB tells.
// Credentials never go to another host: not on a redirect of a blob, not with
// a Link, not with the Location of an upload.
//
// Retries live in one http.RoundTripper (transport.go). Reads, the opening of
// an upload and writes by digest repeat with back-off, jitter and Retry-After;
// an upload that breaks starts again, a download goes on where it broke. The
// PUT or DELETE of a tag is sent once. If its answer is lost, or is a server
// error, the outcome is unknown and the error says so: [ErrUncertain]. What to
// do then depends on the tag, so callers decide it, after reading the tag.
//
// Loopback hosts may speak plain http without a flag. They are asked by a TLS
// handshake on a connection of its own, once per client, so that no request
// has to be sent twice to find out.
//
// # Registries differ
//
// Each difference that is worked around is a quirk in internal/ocitest.
// A mount may be refused or ignored: then the blob is sent, through this process
// and without being kept. Deleting may be refused by tag, by digest or at all ([ErrUnsupported]):
// nothing here needs it. Tag lists may come in pages of any size and order,
// repeat their last link, or be old: [Repo.Snapshot] shows pages, date and
// cache headers to those who must judge. The digest header may be missing:
// bytes are hashed anyway. A digest may answer 404 for some seconds after its
// push: those within a minute are asked again. The referrers API may be
// missing: the fallback tag of the specification is kept.
//
// # Errors
//
// Every error leads to one of the sentinels in errors.go. [ResponseError] has
// the registry's own words, with what looks like a credential, or is one that
// this client has sent, blanked: some registries repeat a request's headers
// when they refuse it.
//
// # Limits
//
// Of two writers of the fallback referrers index at the same moment one entry
// may get lost from the list, not from the registry ([Repo.PutReferrer]).
// A token server on a private address is accepted under the registry's own
// host name, or if the registry is on a private address as well (realm.go).
//
// # Alternatives considered
//
// The repository type of oras-go: its tag is a GET and a PUT, its push asks
// first, and its retrying client repeats every PUT; the counts and the single
// attempt that the lock rests on could not be had. Of oras-go the
// authentication client is used, which is where a mistake would leak
// credentials. A chunked upload would save bytes when a large push breaks, but
// registries differ most in exactly that, and starting again always works.
package oci
