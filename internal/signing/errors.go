// SPDX-License-Identifier: Apache-2.0

package signing

import "errors"

// Reasons why a signature or a key is not accepted.
var (
	ErrBadSignature = errors.New("signature does not match")
	ErrRevokedKey   = errors.New("key is revoked")
	ErrExpiredKey   = errors.New("key has expired")
	ErrEarlyKey     = errors.New("key or signature is not valid yet")
	ErrUnknownKey   = errors.New("signed by an unknown key")
	ErrSums         = errors.New("SHA256SUMS does not match")
)
