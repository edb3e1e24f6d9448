// SPDX-License-Identifier: Apache-2.0

// Package upstream reads providers and modules from where others publish them:
// registries found by service discovery, network mirrors, filesystem mirrors,
// OCI repositories, git repositories and releases of GitHub.
//
// A source answers three questions of one provider: which versions are there,
// which platforms has a version, and where is the package of one platform with
// everything that proves it (SHA256SUMS, its signature and the keys that may
// have made it). Sources only read. They check that an answer has the shape its
// protocol demands and bound its size; they trust nothing in it: verifying
// sums and signatures is up to the caller and happens before anything is
// stored, see package depot.
//
// What each origin can prove:
//
//	origin                checksum                      signature
//	provider registry     SHA256SUMS                    over SHA256SUMS, with keys
//	OCI repository        SHA256SUMS, if stored         likewise
//	network mirror        h1: and zh: hashes, optional  none
//	filesystem mirror     none                          none
//
// A git repository is fetched in two steps: this process stores the pack that the
// server sends, which it only counts, and a child ([Child]) unpacks it. The child adds
// up what all objects and deltas stand for before it resolves one, and has bounds of
// memory and time. It has no secrets, sends no requests, and its death is an error of
// that one repository.
//
// References: the provider registry protocol, the provider network mirror
// protocol and the filesystem mirror layout as documented by OpenTofu.
package upstream
