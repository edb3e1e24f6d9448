// SPDX-License-Identifier: Apache-2.0

// Package httpserve has both ends of HTTP: the listener that every okara server runs
// behind, and the one outgoing transport.
//
// A [Server] bounds the size of headers and the time for them, but not the time of an
// answer: a provider of 500 MB over a slow line is a good request. Bodies must make
// progress, though, and clients must read answers at 64 KiB a minute. A [Server] ends
// gracefully: for a while it still accepts connections, so that a load balancer can stop
// using it, then it stops accepting and lets running requests finish. Its log has one
// record per request with neither query nor header, and with the token of an archive URL
// cut out, since that path alone opens the archive. The same holds for the span of a
// request, which is named by the route and belongs to the trace that the client names.
//
// The transport of [Transport] makes an OpenTelemetry span per request, without the query
// of the URL: upload sessions, presigned blobs and token servers carry secrets there.
package httpserve
