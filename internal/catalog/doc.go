// SPDX-License-Identifier: Apache-2.0

// Package catalog knows the published modules, providers and mirrors, their versions and
// the status of each. It reads them from a registry through caches and applies the policy
// of the server. Package depot writes what it reads.
//
// # Requests
//
//	question                  read from                     cached
//	versions of an item       tag list, status events       list: 30 s
//	a version of a module     manifest of the version tag   [Options].TagTTL
//	a version of a provider   index of the version tag      for ever
//	published items           the catalog repository        list: 30 s
//
// A tag is a version if it is strict SemVer with "_" for "+". A provider's index carries the hashes
// of all platforms as annotations, and checksums, signature and keys inline, so one request answers
// everything about a version. A list never requires reading an index per version.
//
// A cached value is shared and never changed. Values that callers derive from it, such as
// an encoded answer, are kept in its Derived slot, so they are dropped together. A
// refresh that finds the same tags or the same digest returns the same value. Package
// cache describes what happens while the registry is slow or down: lists are served for a
// day without it, provider versions as long as the process runs.
//
// # Versions that are left out
//
// A version that was withdrawn, whose archive the registry has lost, or that does not fulfil the
// policy is in no list, and a request for it returns a [RefusedError], which is never
// [oci.ErrNotFound]: callers must not look elsewhere for it. The result of checking a manifest is
// cached by its digest; the first list of a repository under a policy has to read every version of
// it. A list accepts an older positive result; a request for the version itself accepts none older
// than ten minutes. So withdrawn trust takes effect there, not in the list.
//
// A dangling tag, which is listed while its GET is 404, is skipped once that is known, and checked
// again with each list: a registry that crashes during a write leaves such tags. No requests are
// made to find them, so a list may have one until the version is requested.
//
// The version tag of a provider never moves, because lock files everywhere hold its hashes. The tag
// is checked in the background. If it is on an index that has all old packages unchanged, the new
// index is served; if it is on anything else, the first index is still served, and an error record
// and [Watch].Moved call for an administrator. A process that starts after such a move serves the
// new index: only the registry's own rule for immutable tags prevents that.
//
// # Access
//
// A Catalog sees what the credentials of its client may see, and returns it to every caller: access
// is decided before. Callers with their own credentials for the registry get their own Catalog.
//
// # Limits
//
// Caches are bounded in bytes, not by the registry's size. A catalog entry that cannot be parsed is
// skipped, so one damaged tag hides one repository. Changes by another process in a remote registry
// are visible after half a minute; changes through this process, also those to an embedded
// registry, are visible at the next request ([Catalog.Changed]).
//
// # Search
//
// A [Finder] keeps a [search.Index] of what the catalog read.
package catalog
