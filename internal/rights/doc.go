// SPDX-License-Identifier: Apache-2.0

// Package rights says what a right is: a [Right] is what a request needs, a [Scope]
// is what a rule or a token grants, and [Scope.Allows] compares the two. What a
// repository holds, and so which right a request for it needs, is decided by
// [RightTo] and [StateRight].
//
// The package is pure. Who the caller is, and which scopes the caller has, is for
// package access to find out.
//
// A scope of a rule may name claims of a caller's token ([ParseRuleScope]).
// [Scope.Fill] puts the values in; a value has to be a name, so nothing in a token
// widens a scope.
package rights
