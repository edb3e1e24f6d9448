// SPDX-License-Identifier: Apache-2.0

// Package metricstest holds the queries of alerts and dashboards against the metrics that
// there are. It does not understand PromQL: it looks for names and labels.
package metricstest
