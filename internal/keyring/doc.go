// SPDX-License-Identifier: Apache-2.0

// Package keyring signs and seals what a server hands out and later takes back: links,
// cookies, logins, tokens of runs. The server then has to remember none of them, and
// replicas with the same keys accept each other's.
//
// Signatures are HMAC-SHA256; sealed values are AES-256-GCM with a key that HKDF
// (RFC 5869) derives for each purpose.
package keyring
