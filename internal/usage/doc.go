// SPDX-License-Identifier: Apache-2.0

// Package usage says what a state was made of: the modules that were called and the providers, as a
// [Document] that is stored with each version of a state, and as an [Index] over the newest
// versions, which answers who uses a module or a provider. It sends no request.
//
// # What is recorded
//
// [Root.Record] reads what init wrote into the folder of a root module: .terraform/modules/modules.json
// and the lock file. Where only the state is at hand, [FromState] takes the providers' addresses
// from it, and the document is marked partial. Values and variables are never read. Of a source only
// host, path, ref, tag and digest are kept, no user, password or other argument; of a local
// module its folder below the root. A path outside of the root, or of the machine, is left out.
//
// # Trust
//
// Any client that may write a state writes its document. So it is foreign: [Parse] bounds the number
// of entries and each text, and drops control characters. Who may see it is decided by the rights
// on the state, never by the document.
//
// # What an answer reveals
//
// An [Answer] names only states that its caller may read. Of others it has their number, of all
// versions of the address whatever the constraint, and only from [FewOthers] on; below, it says that
// there are some. So no sequence of constraints singles out one state.
package usage
