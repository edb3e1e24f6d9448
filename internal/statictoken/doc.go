// SPDX-License-Identifier: Apache-2.0

// Package statictoken makes static tokens, "oks_<id>_<secret>", and reads and writes
// the files that list them. A configuration or a file holds the hash of a token, so it
// need not be secret. Package access checks the tokens of requests.
package statictoken
