// SPDX-License-Identifier: Apache-2.0

// Package registry answers the registry protocols of OpenTofu and Terraform
// from an OCI registry.
package registry
