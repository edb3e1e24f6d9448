// SPDX-License-Identifier: Apache-2.0

// Package registry is the front-end: one [net/http.Handler] that speaks the
// protocols of OpenTofu and Terraform and finds everything it answers in an OCI
// registry. It keeps nothing that a restart or a second replica would miss.
//
// # From a request to an answer
//
// routes.go has all routes on one screen: what a request is about, the right it
// takes, who answers. The address in the path is parsed with package addr and
// package access asked whether the caller may do this; only then the handler looks
// into the [catalog.Catalog] of the caller. What is around each of them, limits and
// panics for two, is package service's. The archives themselves are streamed, or
// kept on disk (see [Options].Blobs).
//
// Protocols and platforms of providers are listed for the versions that happen to
// be known. The answers encoded from a value of the catalog stay with it, so that
// a warm request copies bytes. Metadata is answered or given up within 8 s, since
// the clients give up after 10.
//
// # Archives
//
// Both clients fetch archives, checksums and signatures without credentials.
// Each is therefore a link of its own, /archives/TOKEN/REPOSITORY/SHA256/FILE,
// whose token is an HMAC over everything behind it and the time at which it
// ends (address.go). The end is rounded up to a quarter of the lifetime, so answers
// stay the same for that long. A link names one blob: it can be passed on within
// its hours, but neither changed nor guessed.
//
// The blob is streamed with one buffer, in ranges where the client asks, hashed
// on the way when it is read from the start; the last piece is held back until
// the hash is right, and a wrong one ends the connection without a proper end. The zip
// of a provider is not hashed for OpenTofu and Terraform, which do it themselves, unless
// the link is a public one, which caches keep for others. A
// connection to the registry that breaks is taken up where it broke, three
// times. If the registry redirects to an object storage on another host, so does
// the front-end, unless it is configured not to. No time limit ends a download, only
// a minute without progress.
//
// With [Options].Blobs the archives of a registry elsewhere are kept as files by
// digest (package cache). The first request that misses starts a fetch that no
// request owns; it writes a file that all readers follow, each with its own handle
// and at its own pace. The last write becomes readable when the digest is right,
// and only then does the file get its name. A reader that has bytes in a file,
// growing or whole, lets the kernel send them (archive.go); one whose file fails
// goes on with the registry. [Options].Files does the same for a registry in
// this process.
//
// # Who may do what
//
// Package access decides before anything is looked up, so a refusal does not tell
// whether something exists; a route says which right it takes. Every decision and
// every change is a record of the audit log.
//
// A decision needs method, path and query, never the body, which is shut until
// then (package service): whoever reads it too early gets an error.
//
// Which versions are served at all is the catalog's policy.
//
// With pass-through (view.go) a token of no other shape is the caller's own
// credential for the registry. The handlers then look into a view of the caller's
// own, a client with that credential and a catalog that nobody else fills, so what
// one caller may see never reaches another; after a minute it is gone, which bounds
// how long a withdrawn right counts. Its archive links carry the credential sealed, for a quarter of
// an hour at most.
//
// # Reading without a registry
//
// Below …/VERSION/content (content.go) the front-end answers as the registry behind it
// would, for one version: clients verify what they get as if they had asked there. What
// belongs to a version is package pieces's to say. The right to read alone opens that, of
// a version that is served; the rest of a repository, with what was withdrawn or waits
// for an approval, is for who may publish.
//
// # Publishing
//
// What arrives is checked, packed and stored by package depot, as by the command
// itself; nothing that a client says about content is believed. A module is one
// request. The files of a provider are stored one by one as blobs that nothing
// refers to. Each is answered with a receipt: name, hash and, for a package, the
// h1 hash of what is inside, under an HMAC of the archive keys, so that any
// replica takes it for a day (publish_provider.go). Packages are read once, while
// they arrive; making the version of the receipts is a short request, which no
// proxy cuts and a client can repeat. A file that the repository has already gets
// its receipt without being sent. Package client is the
// client.
//
// Signatures that are sent have to be about the version they are added to. Who
// made them is for those who verify (publish_signature.go).
//
// # Versions that are not here yet
//
// With rules for pull-through (pullthrough.go) the versions of an origin are added
// to those in the registry. A version that only the origin has is shown as the
// index that it will be, as soon as its SHA256SUMS and signature are verified, so
// every answer is made as for a stored one. Nothing of it is kept but in memory:
// a link to one of its archives names repository, hash and file, from which any
// replica finds the version at its origin again.
//
// The first request for a package fetches it into a file that all who want it
// follow (pullthrough_archive.go). Verified, it goes to the registry, but only
// after the job is recorded that completes the version as a mirror run would, so
// no package is there that nobody would ever tag. A crash before that costs one
// more fetch, a crash after it nothing. Replicas do not know of each other's
// fetches: each may fetch a package once.
//
// The rules bound what clients can have the server ask for; what they may have
// it connect to is bounded by the transport of the rule's source. Failures are
// remembered, and only addresses and versions in their one written form are keys
// of a cache or reach an origin.
//
// # Work that nobody waits for
//
// Package jobs has it: a job is recorded in the registry before the request is
// answered, so a restart loses nothing; now and then a job is done twice, which
// must be harmless.
//
// A webhook (webhook.go) is such a job. Its signature is checked over the bytes
// before they are parsed, with the secrets of each organisation, and an event
// counts only for an organisation whose secret signed it. GitHub signs neither
// the kind of an event nor the id of its delivery: who has got hold of a
// delivery can send it again under another id. That leads to the same commit
// under the same version, which is there already.
//
// Package downloads counts the same way, without a job. A tag for each process and
// day is never merged with another one: two replicas could not do that at the same
// moment without counting something twice.
//
// # Alternatives considered
//
// One request for each version when listing providers, to fill protocols and
// platforms: the clients use them for one hint in an error message, and a
// repository with hundreds of versions would take minutes. Links without a
// signature but a long random name: the names would have to be stored, and every
// reader of the storage would have all of them. Sending clients to the registry
// itself (the oci answer, see [Modules]) is the least work for the server, but
// only newer OpenTofu understands it, and then needs credentials of its own.
package registry
