// SPDX-License-Identifier: Apache-2.0

// Package providerdoc reads the documentation of a provider: the folder docs/ of
// its source, as the registries of the tools take it
// (https://developer.hashicorp.com/terraform/registry/providers/docs), packed as a
// tar and gzipped.
//
// A page is Markdown with YAML before it, of which the title and the subcategory
// count. What the page is of, its path says: resources/record.md, or r/record.html.md
// in the older form. Other files are passed over.
//
// All of it is the work of others: [Read] bounds the bytes, the files, the length of
// a page and of what is before it, and takes no name that leaves the folder.
package providerdoc
