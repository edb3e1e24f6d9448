// SPDX-License-Identifier: Apache-2.0

// Package upstream reads providers and modules from the places where others publish them:
// registries found by service discovery, network mirrors, filesystem mirrors, OCI repositories, git
// repositories and releases of GitHub.
//
// A source answers three questions about a provider: which versions exist, which platforms a
// version has, and where the package of a platform is, with everything that authenticates it
// (SHA256SUMS, its signature and the keys that may have made it). Sources only read. They check
// that an answer has the form that its protocol requires and bound its size, but do not trust its
// content: the caller verifies sums and signatures before anything is stored, see package depot.
//
// What each kind of origin provides for verification:
//
//	origin                checksum                      signature
//	provider registry     SHA256SUMS                    over SHA256SUMS, with keys
//	OCI repository        SHA256SUMS, if stored         likewise
//	network mirror        h1: and zh: hashes, optional  none
//	filesystem mirror     none                          none
//
// A git repository is fetched in two steps: this process stores the pack that the server sends,
// only counting its bytes, and a child process ([Child]) unpacks it. The child adds up the sizes of
// all objects and deltas before it resolves any, and its memory and time are bounded. It has no
// secrets and sends no requests, and a crash of it is an error of that one repository.
//
// References: the provider registry protocol, the provider network mirror
// protocol and the filesystem mirror layout as documented by OpenTofu.
package upstream
