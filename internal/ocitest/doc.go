// SPDX-License-Identifier: Apache-2.0

// Package ocitest has real registries in process for tests, with the quirks
// that registries in the field show, and transports that break, count or
// delay requests on purpose.
//
// [Each] runs one test body on every registry that fulfils okara's needs;
// [New] starts one with chosen quirks. All of them listen on loopback, speak
// plain http, live in memory and end with the test.
//
// Two facts about distribution 3 need no quirk since it is how it behaves
// anyway: it has no referrers API, and deleting a manifest by digest removes
// all its tags.
package ocitest
