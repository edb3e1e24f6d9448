// SPDX-License-Identifier: Apache-2.0

// Command reference writes the page docs/reference/kubernetes-reference.md from the CRDs of
// the chart: a table for each kind. make generate runs it.
package main
