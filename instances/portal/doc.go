// SPDX-License-Identifier: Apache-2.0

// Package portal is the API of templates and instances over a store of records,
// and the reconciler that drives the machine of package lifecycle.
//
// # The API
//
// [New] answers below /api/v1/. Every request goes the same way ([server.routes]
// and [to]): who asks, the document as it was committed last, what the path is
// about and whether the caller may ask for it; only then is a body read. What a
// caller is to an instance is a [role]: a reader, an approver, its owner, an admin.
// What he may not see answers 404. A change is an event of the machine that the
// [Store] commits; a key makes it one change however often it is sent ([ask]).
// What may be done with an instance is told by asking the machine itself, on a
// document that nobody keeps, so that no list beside it can be wrong.
//
// [Forward] stands before the API and the pages: one replica leads, all others
// hand requests on to it as they came, once. Where no leader answers, what changes
// nothing is answered from the own copy, with its age.
//
// # The reconciler
//
// [Reconciler] works where this replica leads, and remembers nothing beside the
// document: what a leader leaves the next one finds outstanding. It begins what a
// commit decided and never before that commit: attempts, each watched until it has
// ended, and effects beside them (notices, the record at the end, the removal of
// tags), which are tried until they are done. Its passes give the machine what time
// and templates make due, in one commit. Everything that it sends may be sent twice:
// sources, records and jobs have names of their own, an attempt is started once by
// its executor, and a result counts only for the attempt that the record names.
package portal
