// SPDX-License-Identifier: Apache-2.0

// Package catalogpages has the pages of published items: the first page, the search, and
// modules and providers with their versions, files, documentation and evidence.
//
// The pages read through [catalog.Catalog], and show what the caller may read. A page
// waits briefly for parts that may take long, such as signatures, and is shown without
// them if they take longer. Other sets of pages can add content to the first page, and to
// that of a module.
package catalogpages
