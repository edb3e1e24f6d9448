// SPDX-License-Identifier: Apache-2.0

// Package chart renders the chart charts/okara as helm does, and puts objects on an API
// server, for tests and demonstrations. It is the one package that knows helm.
package chart
