// SPDX-License-Identifier: Apache-2.0

// Package service is what every service of one server gets: the part of
// answering a request that does not depend on what is asked.
//
// A service is an [http.Handler] whose routes are made with [Kit.Handle]. Its
// handlers return an error instead of writing one, and one function of the
// service turns errors into answers: [Kit.Fail], or one of its own that ends in
// [Kit.Refuse]. Around a handler the kit counts the request, turns a panic into
// an error of this one request, and keeps the body shut until the handler has
// decided that it may be read ([Kit.OpenBody]).
//
// # Limits
//
// What is done at one moment is bounded by [Limiter], in all and for one client.
// [Kit.Limit] is for answers that are small and quick: it takes a place and ends
// the work for it before the clients give up. Other handlers take places of their
// own for what they hold.
//
// # Alternatives considered
//
// Middleware around the whole server: it does not know the pattern of a route,
// which the counters need, nor how a service words its errors.
package service
