// SPDX-License-Identifier: Apache-2.0

// Package webtest drives a real browser over pages under test: it follows every link, and
// examines each page for users with and without sight, a mouse or a wide screen. The
// output of templates is compared with files, without a browser. The package also has an
// issuer to log in with, and an audit log in memory.
package webtest
