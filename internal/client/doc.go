// SPDX-License-Identifier: Apache-2.0

// Package client publishes through a front-end (package registry) instead of into the
// registry behind it, and lists and reads published versions. The user needs a token for
// the front-end and no credential for the registry.
//
// # Client and server
//
// The checks, the ignore files and the packing are those of package depot and run here,
// so that a mistake is found before anything is sent, and a dry run needs no server. The
// server repeats the checks, as it must, and makes the artifact. The hash of each body is
// sent in Content-Digest, and the content digest of a module in the answer must be the
// one that was packed. The private key that signs SHA256SUMS stays here.
//
// The files of a provider are uploaded separately, four at a time; the answer to each is
// a receipt, and the version is then made from the receipts. Before a file is sent, the
// server is asked for the receipt of its hash. So a publication that was interrupted
// sends only the files that had not arrived, from any machine and to any replica, and no
// state has to be kept here. Nothing is visible until the version is made.
//
// # Repeating
//
// Every request is idempotent: a file is stored by its hash, a version is written once, a
// signature is added once. So all requests are repeated after 429, 502, 503, 504 and
// broken connections. If the server has never answered, a failure to connect is final.
//
// # Tokens
//
// A token is sent only to the server: redirects are not followed. It is removed from all
// texts of the server. A token of GitHub Actions is requested when it is needed, for an
// audience that the user sets or that follows from the server's address. The server does
// not choose the audience: it could name that of another service, and get a token that is
// valid there.
//
// # Alternatives considered
//
// Receipts kept in a file were rejected: that helps only on the same machine, and CI jobs
// start on another one. Sending the tree of a module with its ignore files and letting
// the server choose: the output of --dry-run would be a guess.
package client
