// SPDX-License-Identifier: Apache-2.0

// Package webtest drives a real browser over pages under test: it follows every
// link that they have, and looks at each page as people with and without eyes,
// mouse and a wide screen would. What templates make is compared with files, without
// one. It has an issuer to log in at, and an audit log in memory.
package webtest
