// SPDX-License-Identifier: Apache-2.0

// Package site is the frame of the pages below /ui/: layout, assets, theme, menu, forms,
// messages, error pages, and the formats that all pages use. Sets of pages are added as a
// [Set]; the package depends on none of them.
//
// # Rules
//
//   - A route has the right that it requires. The right is checked before the page runs, and
//     before an error of the path is reported. The check of a form is done before a byte of
//     it is read.
//   - GET changes nothing. A form that changes something comes from a page of this
//     server and carries the key of that page: if it is sent twice, it takes effect once.
//   - A page is rendered completely before its status is written, so that no incomplete
//     page is sent with 200.
//   - A page loads nothing from other hosts. The content security policy of each page
//     allows only the server itself, without inline scripts and inline styles. Only
//     images may come from hosts that the administrator lists.
//
// # Templates
//
// A set has its files below templates. Each file is one page, inside the layout; files
// whose names begin with parts are for all pages of the set. The data of a template is
// complete before it runs: templates make no requests.
//
// # Links
//
// All links are relative, so that pages work behind a proxy that serves them below a
// path.
package site
