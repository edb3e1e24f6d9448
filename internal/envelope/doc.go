// SPDX-License-Identifier: Apache-2.0

// Package envelope seals and opens state with a data key that is wrapped by a
// KMS, age recipients or a key file.
//
// # Format
//
// Each call of Seal generates a new 32-byte data key and a new 12-byte nonce
// and encrypts with AES-256-GCM. The sealed bytes are
//
//	offset  size  what
//	0       8     "okara-e1"
//	8       8     length of the plain text, big endian
//	16      12    nonce
//	28      n     cipher text, as long as the plain text
//	28+n    16    authentication tag
//
// The associated data of the cipher is the first 16 bytes followed by the bytes
// that the caller binds the text to (for a state: media type, origin
// repository, workspace, version, fence and parent). The length makes it
// possible to report a truncated text as truncated, not only as not authentic.
//
// The data key is wrapped once per configured key. The wraps are stored beside
// the sealed bytes, in two annotations:
//
//	vnd.okara.state.envelope        "1"
//	vnd.okara.state.envelope.wraps  [{"key":"age1…","wrapped":"<base64>"}, …]
//
// # Keys
//
// A key is configured by a reference; its id is stored in the annotations and
// never contains a secret.
//
//	reference                             id                            wrap
//	awskms://, gcpkms://,                 the URL without its query     what the service returns
//	azurekeyvault://, hashivault://
//	base64key://<32 bytes, base64>        base64key:<16 hex of SHA-256> NaCl secretbox, nonce first
//	age1…                                 the recipient                 an age file
//	path or file:// of age identities     their recipients              an age file
//	path or file:// of 32 bytes           file:<16 hex of SHA-256>      nonce, AES-256-GCM
//
// A key file contains its 32 bytes raw, in hexadecimal or in base64. Like a file of age identities
// it must not be readable by group or others. An age recipient alone can seal but not open.
//
// Open tries the wraps whose id belongs to one of the configured keys, and for
// the key services also wraps of the same service under another name (an alias
// for the key it points to). References come only from the user's
// configuration: an id in a registry is compared, never used as a reference.
//
// # Limits
//
// The registry sees the size of a state, its key ids and how often it changes.
// Anyone who can open one version and write to the repository can seal a new
// one: an envelope keeps state secret, it does not sign it. Removing a key from
// the configuration does not change versions that are already stored.
//
// # Alternatives considered
//
// An age file for everything: it has no associated data, so sealed states could be exchanged
// between workspaces. A key service for the whole state: their size limits are a few KiB. One data
// key per repository: its loss would expose every version, and nonces would have to be counted.
package envelope
