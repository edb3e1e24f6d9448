// SPDX-License-Identifier: Apache-2.0

// Package pages is the pages of templates and instances, for okara's own programs: no
// promise of compatibility.
//
// They ask the API of instances, in this process and as who asks for the page, and know
// nothing else of them. What somebody may see and do, what is masked and how a refusal is
// worded is so decided once, in package portal; where another replica leads, it is the
// request to the API that is handed on.
//
// # Alternatives considered
//
// Forwarding whole pages: a replica of another version has other assets, and seals its
// messages with keys that this one may not have.
package pages
