// SPDX-License-Identifier: Apache-2.0

// Package api defines the JSON of the instances API, for the server (package portal) and its
// clients.
//
// Times are UTC (RFC 3339). Durations are texts such as "8h" or "1h30m". A field that the
// caller may not see is left out, and a value that is hidden from everyone is the text of
// [Masked].
package api
