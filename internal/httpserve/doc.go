// SPDX-License-Identifier: Apache-2.0

// Package httpserve has both ends of HTTP: the listener that every okara
// server runs behind, and the one outgoing transport.
//
// A [Server] bounds headers in size and time but not answers in time: a
// provider of 500 MB over a slow line is a good request. Bodies must go on,
// though, and answers be taken at 64 KiB a minute. It ends gracefully:
// for a moment it still accepts, so that a load balancer can look away, then
// it stops accepting and lets running requests finish. Its log has one record
// per request with neither query nor header, and with the token of an archive
// URL cut out, since that path alone opens the archive. The same is true of the
// span of a request, which is named by the route and belongs to the trace that
// the client names.
//
// The transport of [Transport] makes an OpenTelemetry span per request, with
// the URL's query left out: upload sessions, presigned blobs and token
// servers carry secrets there.
package httpserve
