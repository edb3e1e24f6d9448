// SPDX-License-Identifier: Apache-2.0

// Package catalogpages is the pages of what is published: the first page, the search, and
// modules and providers with their versions, files, documentation and evidence.
//
// They read through [catalog.Catalog], and show what the caller may read. A part that
// takes long, such as signatures, is waited for a moment and left out then: the page is of
// use without. What other sets of pages have to say of the first page, or of a module,
// comes in with them.
package catalogpages
