// SPDX-License-Identifier: Apache-2.0

// Package depottest provides fixtures for tests of publishing and verifying: depots on a
// registry of package ocitest, a small module, a signed provider release, and keys.
package depottest
