// SPDX-License-Identifier: Apache-2.0

// Package web combines the pages below /ui/. They are documents, rendered on the server,
// and work without script.
//
// Package site is the frame around all pages; packages beside it are sets of pages. This
// package has the pages for administrators, and the login.
//
// # Rules
//
//   - A page shows the same as the API, to the same callers: the right is checked
//     with [access.Guard] first, and a page reads through [catalog.Catalog]. Items that a
//     caller may not read are neither listed nor counted.
//   - A page whose content is cached costs no request to the registry.
//
// # Untrusted content
//
// Package markdown makes Markdown of other authors safe. All other content from outside
// is text, which html/template escapes for its context.
//
// # Alternatives considered
//
// A client-side framework was rejected: the pages are documents, and would need a build
// and a second language. htmx: 50 KB for partial updates that no page needs, and some of
// its attributes require a less strict content security policy.
package web
