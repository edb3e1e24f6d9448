// SPDX-License-Identifier: Apache-2.0

// Package oci is okara's data model and its client for OCI registries: how
// every kind of artifact is stored, and how it gets there and back. No other
// package knows what a manifest of okara looks like or speaks to a registry.
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
// # Artifact kinds
//
// All manifests are OCI image manifests or indexes with the empty config
// ("application/vnd.oci.empty.v1+json", two bytes), built by hand in the file
// named after the kind. The shapes are those that OpenTofu, Flux and cosign
// read without okara.
//
// A module version (module.go, tag "1.4.0") is one manifest. OpenTofu takes
// its only layer of type archive/zip, Flux the first layer (TestFlux in
// internal/conformance lets its client do so), the front-end the
// description:
//
//	artifactType: application/vnd.opentofu.modulepkg
//	layers:
//	- application/vnd.cncf.flux.content.v1.tar+gzip
//	- archive/zip
//	- application/vnd.okara.module.v1+json
//	annotations: vnd.okara.{kind,address,version,content-digest}, org.opencontainers.image.*
//
// A provider version (provider.go, tag "5.1.0") is an index with one manifest
// per platform. The digest of a zip's layer is at once the zh: hash that
// lock files hold; the h1: hash is kept beside it. SHA256SUMS, its signature
// and the keys are in a manifest of their own, repeated inline while it is
// small, so that one GET of the index answers the registry protocol:
//
//	artifactType: application/vnd.opentofu.provider
//	manifests:
//	- artifactType: application/vnd.opentofu.provider-target
//	  platform: {os: linux, architecture: amd64}
//	  annotations: vnd.okara.provider.{filename,zh,h1,size}
//	- artifactType: application/vnd.okara.provider.metadata.v1
//	  data: <the metadata manifest, up to 32 KiB>
//	annotations: vnd.okara.provider.{protocols,signature}, …
//
// A state version (state.go, tags "state-W-v42" and, moved, "state-W") has
// one layer, repeated inline up to 32 KiB so that reading it is one request:
//
//	artifactType: application/vnd.opentofu.state.v1
//	layers:
//	- application/vnd.opentofu.statefile.v1[+zstd|+gzip][+encrypted]
//	annotations: org.opentofu.workspace, vnd.okara.state.{version,parent,fence,lineage,serial,…}
//
// A lock claim, its tombstone and the visible marker (lock.go, tags
// "locked-W-<F>-<x>", "unlocked-W-<F>-<x>[-f]", "locked-W") say everything in
// annotations; package statebackend holds the argument why that is a lock:
//
//	artifactType: application/vnd.opentofu.lock.v1
//	annotations: vnd.okara.lock.{kind,id,info,fence,nonce,reason,who}
//
// Status events (status.go), the catalogue (catalog.go), jobs and downloads in
// the queue repository (job.go, count.go) and the marks of a state repository (mark.go) are manifests of the
// same plain shape. Manifests are at most [MaxManifest] bytes; what other tools
// wrote is read where the shape allows it, and never rewritten.
//
// # Requests
//
// Callers count requests, so each method says what it sends. There is no GET
// of /v2/ before anything and no HEAD before a PUT: a repository is asked
// directly, and a 401 with a challenge starts the token exchange. Tokens are
// kept per repository and set of actions, renewed before they expire, and once
// when they are refused; of parallel refusals one fetches for all.
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
// Deleting may be refused by tag, by digest or at all ([ErrUnsupported]):
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
