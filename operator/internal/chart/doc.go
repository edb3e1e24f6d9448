// SPDX-License-Identifier: Apache-2.0

// Package chart renders the chart charts/okara the way helm does, and creates objects on
// an API server, for tests and demonstrations. No other package depends on helm.
package chart
