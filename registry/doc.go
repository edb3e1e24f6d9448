// SPDX-License-Identifier: Apache-2.0

// Package registry is the front-end: one [net/http.Handler] that serves the protocols of OpenTofu
// and Terraform from the content of an OCI registry. It keeps no state that a restart or a second
// replica would need.
//
// # From a request to an answer
//
// routes.go has all routes: what a request is about, the right that it requires, and its handler.
// The address in the path is parsed with package addr, and package access decides whether the
// caller may do this. Only then does the handler use the [catalog.Catalog] of the caller. Package
// service wraps each handler with limits and panic recovery.
//
// Protocols and platforms of providers are listed only where they are already known. Encoded
// answers are cached with the catalog value that they derive from, so a warm request only copies
// bytes. A metadata request is answered or fails within 8 s, since the clients give up after 10.
//
// # Archives
//
// Both clients fetch archives, checksums and signatures without credentials. Each of these
// therefore has its own link, /archives/TOKEN/REPOSITORY/SHA256/FILE. The token is an HMAC over the
// rest of the path and the expiry time (address.go), rounded up to a quarter of the lifetime, so
// answers stay the same for that long. A link names one blob: it can be passed on until it expires,
// but neither changed nor guessed.
//
// The blob is streamed with one buffer, in ranges if the client requests them. Read from the start,
// it is hashed on the way; the last chunk is held back until the hash is verified, and a mismatch
// breaks the connection. The zip of a provider is not hashed for OpenTofu and Terraform, which do
// it themselves, unless the link is a public one, which caches keep for others. A broken connection
// to the registry is resumed up to three times. If the registry redirects to an object storage on
// another host, so does the front-end, unless it is configured not to. A download ends only after a
// minute without progress.
//
// With [Options].Blobs the archives of a remote registry are cached as files by digest (package
// cache). The first request that misses starts a fetch that is independent of any request, into a
// file that all readers follow at their own pace. The last write becomes readable only when the
// digest is verified, and only then does the file get its name. The kernel sends the bytes that are
// in a file (archive.go); a reader whose file fails continues with the registry. [Options].Files
// does the same for a registry in this process.
//
// # Access control
//
// Package access decides before anything is looked up, so a refusal does not reveal whether
// something exists. Every decision and every change is a record of the audit log.
//
// A decision needs method, path and query, never the body, which package service keeps closed until
// then.
//
// The catalog's policy decides which versions are served.
//
// With pass-through (view.go) a token of no known form is the caller's own credential for the
// registry. The handlers then use a separate view: a client with that credential and a catalog that
// only this caller fills, so its content never reaches another. The view is discarded after a
// minute, which bounds how long a withdrawn right still works. Its archive links carry the
// credential sealed, for a quarter of an hour at most.
//
// # Reading without a registry
//
// Below …/VERSION/content (content.go) the front-end answers as the registry behind it would, for
// one version. Package pieces defines which content belongs to it. The right to read is sufficient
// for a version that is served; the rest of a repository, including withdrawn versions and those
// waiting for approval, requires the right to publish.
//
// # Publishing
//
// Package depot checks, packs and stores uploaded content, as for the command itself; a client's
// claims about it are never trusted. A module is one request. The files of a provider are stored
// one by one as blobs that nothing refers to. Each is answered with a receipt: name, hash and, for
// a package, the h1 hash of its content, under an HMAC of the archive keys, so that any replica
// accepts it for a day (publish_provider.go). Packages are read once, while they arrive; creating
// the version from the receipts is a short request, which no proxy cuts off and a client can
// repeat. A file that is already there gets its receipt without being sent. Package client
// implements the client.
//
// Uploaded signatures must be about the version they are added to. Whether their signer is trusted
// is decided when they are verified (publish_signature.go).
//
// # Versions that are not in the registry yet
//
// With rules for pull-through (pullthrough.go) the versions of an origin are added to those in the
// registry. One that only the origin has is represented by its future index as soon as its
// SHA256SUMS and signature are verified, so every answer is made as for a stored version. It is
// kept only in memory: a link to one of its archives names repository, hash and file, from which
// any replica finds it at its origin again.
//
// The first request for a package fetches it into a file that all its readers follow
// (pullthrough_archive.go). After verification it is stored in the registry, but only after a job
// is recorded that completes the version as a mirror run would, so that no package stays untagged.
// A crash costs one more fetch at most. Replicas do not coordinate: each may fetch a package once.
//
// The rules bound what clients can make the server fetch, the transport of the rule's source the
// hosts that it connects to. Failures are remembered. Only addresses and versions in canonical form
// are used as cache keys or sent to an origin.
//
// # Background work
//
// Package jobs runs background work, recorded in the registry before the request is answered, so a
// restart loses nothing. A job is sometimes run twice, which must be harmless.
//
// A webhook (webhook.go) is such a job. Its signature is checked before it is parsed, and an event
// counts only for an organisation whose secret signed it. GitHub signs neither the kind of an event
// nor the id of its delivery, so an intercepted delivery can be sent again under another id: it
// leads to the same commit under the same version, which already exists.
//
// Package downloads counts in the same way, without a job. Each process and day has its own tag:
// two replicas could not merge tags concurrently without counting twice.
//
// # Alternatives considered
//
// One request for each version when listing providers, to fill protocols and platforms: the clients
// use them only for a hint in an error message, and hundreds of versions would take minutes. Links
// with a long random name instead of a signature: the names would have to be stored, and every
// reader of that storage could use all of them. Sending clients to the registry itself (the oci
// answer, see [Modules]): the least work for the server, but only newer OpenTofu supports it, with
// credentials of its own.
package registry
