// SPDX-License-Identifier: Apache-2.0

// Package keyless verifies Sigstore bundles whose key is certified for minutes: an authority says
// who signed, a transparency log or a timestamp authority when. It asks nobody; a trust root, as
// Sigstore's trusted_root.json, has the certificates and keys that count. All of this must hold:
//
//   - Certificate and authority were valid at each time that the bundle proves, and there is one:
//     that of a log's signed promise, or of a timestamp (RFC 3161) over the signature.
//   - One of the transparency logs of the trust root, if it has any, has the signature with the
//     certificate: below a checkpoint that it signed, or by its promise.
//   - One of the certificate logs of the trust root, if it has any, has the certificate (RFC 6962).
//   - The certificate names an accepted identity, and its issuer.
//
// sigstore-go would add 4.9 MiB and, at each start, the work of 68 packages. So it is the judge of
// this package in internal/conformance, by bundles of its test authority.
package keyless
