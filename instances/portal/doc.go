// SPDX-License-Identifier: Apache-2.0

// Package portal is the API of templates and instances over a store of records. What the
// commits of that store decide is carried out by package driver on a machine, and by the
// operator in a cluster.
//
// [New] answers below /api/v1/. Every request takes the same steps ([server.apiRoutes] and
// [handleCall]): identify the caller, read the document as committed last, find what the path is
// about and whether the caller may request it; only then is a body read. A caller's
// [role] for an instance is reader, approver, owner or admin. What the caller may not see
// answers 404. A change is an event of the machine that the [lifecycle.Store] commits; a key makes
// it one change however often it is sent ([ask]). Which actions are possible is found by
// trying them in the machine itself, on a copy of the document that is discarded, so that
// it always agrees with what the machine accepts.
//
// [Forward] stands before the API and the pages: one replica leads, all others forward
// requests to it unchanged, and only once. If no leader answers, read-only requests are
// answered from the replica's own copy, with its age.
package portal
