// SPDX-License-Identifier: Apache-2.0

// Package oci is the data model of okara and its client for OCI registries.
package oci
