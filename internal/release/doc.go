// SPDX-License-Identifier: Apache-2.0

// Package release knows what a release of a provider consists of: how its files are
// called, what the clients demand of a zip, what SHA256SUMS and the registry manifest
// say. It is the form that GoReleaser leaves and that OpenTofu and Terraform install.
//
// A zip comes from strangers: [Hash] bounds the number of its files and what they
// expand to, and refuses paths and file types that could reach outside of the folder
// of the plugin.
package release
