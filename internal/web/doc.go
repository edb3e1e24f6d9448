// SPDX-License-Identifier: Apache-2.0

// Package web puts the pages below /ui/ together: what people would rather look at than
// read. They are documents, made on the server, and work without script.
//
// Package site is the frame around all of them, which takes sets of pages; packages
// beside it are the sets. Here are those of who runs the server, and the login.
//
// # Rules
//
//   - A page shows what the API answers, to whom the API answers it: the right is asked
//     of [access.Guard] first, and a page reads through [catalog.Catalog]. What somebody
//     may not read is neither listed nor counted.
//   - A warm page costs no request to the registry.
//
// # Content of others
//
// Package markdown makes what others wrote safe. Everything else from outside is text,
// which html/template escapes where it stands.
//
// # Alternatives considered
//
// A client-side framework: the pages are documents, and would need a build and a
// second language. htmx: 50 KB for partial updates that no page needs, and some of
// its attributes want a looser policy.
package web
