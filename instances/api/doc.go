// SPDX-License-Identifier: Apache-2.0

// Package api is what the API of instances says and takes, as JSON: one
// description for the server (package portal) and its clients.
//
// Times are UTC (RFC 3339). Durations are texts such as "8h" or "1h30m". A field
// that the caller may not see is left out, and a value that nobody is shown is
// the text of [Masked].
package api
