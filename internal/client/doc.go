// SPDX-License-Identifier: Apache-2.0

// Package client publishes through a front-end (package registry) instead
// of into the registry behind it, and lists and reads what is there. Who does needs a
// token for the front-end and no credential for the registry.
//
// # What happens where
//
// The checks, the ignore files and the packing are those of package depot and
// run here, so that a mistake is found before anything is sent, and a dry run
// needs no server. The server repeats the checks on what arrives, as it must,
// and makes the artifact. The hash of each body goes along in Content-Digest,
// and the content digest of a module that comes back has to be the one that was
// packed. The private key that signs SHA256SUMS stays here.
//
// The files of a provider are uploaded one by one, four at a time, each answered
// with a receipt; the version is then made of the receipts. Before a file is
// sent the server is asked for the receipt of its hash. So a publication that
// was cut sends only what had not arrived, from any machine and to any replica,
// and nothing has to be kept here. Until the version is made nothing is visible.
//
// # Repeating
//
// Every request has the same effect once and twice: a file is stored by its
// hash, a version is written once, a signature is added once. So all of them are
// repeated after 429, 502, 503, 504 and broken connections. An address where
// nobody ever answered is final.
//
// # Tokens
//
// A token goes to the server and to nobody else: redirects are not followed.
// It is cut out of whatever the server says. A token of GitHub Actions is asked
// for when it is needed, for an audience that the user or the server's address
// says. Not the server itself: one that named the audience of another service
// would get a token that is good there.
//
// # Alternatives considered
//
// Receipts kept in a file: that helps the same machine only, and CI jobs start
// on another one. Sending the tree of a module with its ignore files and letting
// the server choose: what --dry-run shows here would be a guess.
package client
