// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps the document of all instances in a repository of an OCI
// registry, under one lock: who holds it leads, and commits.
package ledger
