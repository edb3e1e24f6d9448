// SPDX-License-Identifier: Apache-2.0

// Package metricstest checks the queries of alerts and dashboards against the existing
// metrics. It does not parse PromQL, but searches for names and labels.
package metricstest
