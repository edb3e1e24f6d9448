// SPDX-License-Identifier: Apache-2.0

// Package rights defines rights: a [Right] is what a request needs, a [Scope] is what a
// rule or a token grants, and [Scope.Allows] compares the two. [RightTo] and
// [StateRight] determine which right a request needs for a repository or a state.
//
// The package does no I/O. Package access identifies callers and determines their
// scopes.
//
// A scope of a rule may name claims of a caller's token ([ParseRuleScope]).
// [Scope.Fill] inserts their values, which must be names, so nothing in a token widens a
// scope.
package rights
