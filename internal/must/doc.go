// SPDX-License-Identifier: Apache-2.0

// Package must has what tests do with a call that has to succeed: an error ends the test, and with
// a value that has to be another one: a difference fails it. Only tests import this package.
package must
