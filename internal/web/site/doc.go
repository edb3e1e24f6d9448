// SPDX-License-Identifier: Apache-2.0

// Package site is the frame of the pages below /ui/: layout, assets, theme, menu, forms,
// messages, pages of errors, and the words that all pages use. Sets of pages register
// with it as a [Set]; it knows none of them.
//
// # Rules
//
//   - A route names the right that it takes. The right is asked before the page runs, and
//     before an error of the path is reported. The check of a form is done before a byte of
//     it is read.
//   - GET changes nothing. A form that changes something comes from a page of this
//     server and carries the key of that page: sent twice, it is done once.
//   - A page is rendered as a whole before its status is written, so that half a
//     page with 200 cannot be.
//   - Nothing leaves for another host. The policy of each page forbids it, and
//     names no source but the server itself: no inline script, no inline style. Only
//     images may come from hosts that who runs the server names.
//
// # Templates
//
// A set has its files below templates. Each is one page, inside of the layout; those
// whose names begin with parts are for all pages of the set. What a template shows is
// complete before it runs: none asks anything.
//
// # Links
//
// All links are relative, so that pages work behind a proxy with a path of its own.
package site
