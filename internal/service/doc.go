// SPDX-License-Identifier: Apache-2.0

// Package service holds what all services of one server share: the part of answering a
// request that does not depend on the request's subject.
//
// A service is an [http.Handler] whose routes are made with [Kit.Handle]. Its handlers
// return an error instead of writing one, and one function of the service turns errors
// into answers: [Kit.Fail], or a function of the service that ends in [Kit.Refuse].
// Around a handler the kit counts the request, turns a panic into an error of this one
// request, and keeps the body shut until the handler has decided that it may be read
// ([Kit.OpenBody]).
//
// # Limits
//
// [Limiter] bounds concurrent work, in total and per client. [Kit.Limit] is for answers
// that are small and quick: it takes a place, and ends the work before clients give up.
// Other handlers acquire further places for the resources that they hold.
//
// # Alternatives considered
//
// Middleware around the whole server was rejected: it knows neither the pattern of a
// route, which the counters need, nor how a service words its errors.
package service
