// SPDX-License-Identifier: Apache-2.0

// Package catalog says what is there: modules, providers and mirrors, their
// versions and the state of each, read from a registry through caches and
// screened by the policy of the server. Package depot writes what it reads.
//
// # What is read
//
//	question                      what is read                      kept
//	versions of anything          tag list, status events           list: 30 s
//	a version of a module         manifest under the version tag    [Options].TagTTL
//	a version of a provider       index under the version tag       for ever
//	what has been published       the catalog repository          list: 30 s
//
// A tag is a version if it is strict SemVer with "_" for "+". A provider's index
// carries the hashes of all platforms as annotations, and checksums, signature
// and keys inline, so one request answers everything about a version. Reading an
// index per version is never on the path of a list.
//
// The value read is shared and never changed. What readers make of it, such as an
// encoded answer, they keep in its Derived slot, so it goes when the value goes. A
// refresh that finds the same tags or the same digest returns the same value.
// Package cache says what happens while the registry is slow or down: lists live
// a day without it, provider versions as long as the process.
//
// # What is left out
//
// A version that was withdrawn, whose archive the registry has lost, or that does
// not fulfil the policy is in no list, and asking for it is a [RefusedError], which
// is never [oci.ErrNotFound]: whoever would look elsewhere must not. What came of
// checking a manifest is kept by its digest; the first list of a repository under
// a policy has to read every version of it. A list takes an old good result, a
// request for the version itself does not take one older than ten minutes: a
// withdrawn trust ends there, not in the list.
//
// A dangling tag, one that is listed while its GET is 404, is skipped once that is
// known, and looked for again with each list: a registry leaves one that dies while
// it writes. Nothing is asked to find them, so a list may name one until somebody
// asks for it.
//
// The version tag of a provider never moves, because lock files everywhere hold
// its hashes. It is looked at in the background; found on an index that has all
// old packages unchanged, the new one is served; found on anything else, the
// first one is served on, and an error record and [Watch].Moved call for a person.
// A process that starts after such a move serves what it finds: only the
// registry's own rule for immutable tags prevents that.
//
// # Whose view it is
//
// A Catalog sees what the credentials of its client may see, and tells everybody
// the caller: access is decided before. Callers whose own credentials count
// get a Catalog of their own.
//
// # Limits
//
// Caches are bounded in bytes, not by the registry's size. A catalog entry that
// cannot be parsed is passed over, so one damaged tag hides one repository. What
// another process changed in a registry elsewhere is seen after half a minute; what
// goes through this one, into a registry that it holds itself too, with the next
// question ([Catalog.Changed]).
//
// # Search
//
// A [Finder] keeps a [search.Index] of what the catalog read.
package catalog
