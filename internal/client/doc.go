// SPDX-License-Identifier: Apache-2.0

// Package client publishes through a front-end (package registry) instead of into the
// registry behind it, and lists and reads published versions. The user needs a token for
// the front-end and no credential for the registry.
//
// # Client and server
//
// The checks, the ignore files and the packing are those of package depot and run here, so
// a mistake is found before anything is sent, and a dry run needs no server. The server
// repeats the checks and makes the artifact; the content digest of a module in its answer
// must be the one that was packed. The private key that signs SHA256SUMS stays here.
//
// The files of a provider are uploaded separately; the answer to each is a receipt, and the
// version is made from the receipts. Before a file is sent, the server is asked for the
// receipt of its hash, so an interrupted publication sends only what had not arrived, from
// any machine and to any replica. Every request is idempotent, and repeated after 429, 502,
// 503, 504 and broken connections. If the server has never answered, a failure to connect
// is final.
//
// # Tokens
//
// A token is sent only to the server: redirects are not followed. It is removed from all
// texts of the server. A token of GitHub Actions is requested when it is needed, for an
// audience that the user sets or that follows from the server's address, and that the
// server does not choose: it could name that of another service.
//
// # Alternatives considered
//
// Receipts kept in a file help only on the same machine, and CI jobs start on another one.
// If the server applied the ignore files, the output of --dry-run would be a guess.
package client
