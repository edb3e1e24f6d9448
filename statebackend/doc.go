// SPDX-License-Identifier: Apache-2.0

// Package statebackend stores states, their versions and their locks in a
// repository of an OCI registry.
package statebackend
