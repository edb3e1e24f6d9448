// SPDX-License-Identifier: Apache-2.0

// Package web is the pages below /ui/: what people would rather look at than
// read. They are documents, made on the server, and work without script.
//
// # Rules
//
//   - A page shows what the API answers, to whom the API answers it: each asks
//     [access.Guard] first and reads through [catalog.Catalog]. What somebody may
//     not read is neither listed nor counted.
//   - GET changes nothing. A form that changes something comes from a page of this
//     server and carries the key of that page: sent twice, it is done once.
//   - A page is rendered as a whole before its status is written, so that half a
//     page with 200 cannot be.
//   - Nothing leaves for another host. The policy of each page forbids it, and
//     names no source but the server itself: no inline script, no inline style. Only
//     images may come from hosts that who runs the server names.
//   - A warm page costs no request to the registry.
//
// # Templates and instances
//
// Their pages ask the API of instances, in this process and as who asks for the page,
// and know nothing else of them. What somebody may see and do, what is masked and how
// a refusal is worded is so decided once, in package portal; where another replica
// leads, it is the request to the API that is handed on. Forwarding whole pages lost:
// a replica of another version has other assets, and seals its messages with keys that
// this one may not have.
//
// # Content of others
//
// A README is Markdown with HTML in it, from whoever published the module. It goes
// through goldmark, then through a policy of bluemonday that lets elements of text
// through and nothing that acts: see [policy]. What a hole in both would let
// through, the Content-Security-Policy stops. Rendering is bounded in size, depth
// and time, and done once for each text. Everything else from outside is text,
// which html/template escapes where it stands.
//
// # Links
//
// All links are relative, so that pages work behind a proxy with a path of its own.
//
// # Alternatives considered
//
// A client-side framework: the pages are documents, and would need a build and a
// second language. htmx: 50 KB for partial updates that no page needs, and some of
// its attributes want a looser policy. Rendering Markdown when it is published: the
// rules of what is safe change, and then all that is stored is old.
package web
