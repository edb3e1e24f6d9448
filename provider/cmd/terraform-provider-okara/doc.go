// SPDX-License-Identifier: Apache-2.0

// Command terraform-provider-okara is okara's provider for OpenTofu and Terraform, which start it
// themselves. It has data sources that read states and versions from OCI registries, and a state
// store for tools that load state storage from providers. Package plugin implements it.
package main
