// SPDX-License-Identifier: Apache-2.0

// Package ocitest provides real registries in process for tests, with the quirks of
// registries in the field, and transports that break, count or delay requests on purpose.
//
// [Each] runs one test body on every registry that fulfils okara's needs; [New] starts
// one with chosen quirks. All of them listen on loopback, speak plain HTTP, live in
// memory and end with the test.
//
// Two properties of distribution 3 need no quirk, since they are its normal behaviour: it
// has no referrers API, and deleting a manifest by digest removes all its tags.
package ocitest
