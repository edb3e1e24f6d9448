// SPDX-License-Identifier: Apache-2.0

// Package depottest has what tests publish and verify: depots on a registry of
// package ocitest, a small module, a signed release of a provider, and keys.
package depottest
