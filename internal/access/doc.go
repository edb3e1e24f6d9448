// SPDX-License-Identifier: Apache-2.0

// Package access says who a request is and whether it may, and records the
// answer.
//
// # The one question
//
// A server makes one [Guard] and asks [Guard.Allow] before it looks anything up,
// so a refusal does not tell whether something exists. The question is a [rights.Right]:
// an action, a kind, an address. The answer is a [Grant], which knows the caller,
// or a [Refusal], which the server turns into 401 or 403. A Refusal is
// [oci.ErrUnauthenticated] or [oci.ErrDenied] like what a registry says; its type
// tells that it is ours.
//
// The decision needs method, path and header, never the body. What a repository
// holds, and so which right it takes, is decided in one place, [rights.RightTo].
//
// # The caller
//
// The shape of a token selects the one way to check it; a token that fails is
// refused and never tried in another way, nor taken for anonymous:
//
//	oks_<id>_<secret>   a static token; the configuration has its hash   token.go
//	okl_<sealed>        a login by this server                           login.go
//	okr_<sealed>        a run that this server started                   run.go
//	a JWT of an issuer  OpenID Connect, algorithms with a public key     oidc.go
//	the cookie of a     on the pages and the API of people only, and where there is
//	session             no token                                         session.go
//	anything else       where [Options].PassThrough says so, the         credential.go
//	                    caller's own credential for the registry
//
// Keys of an issuer are kept; one that is down stops no token whose key is known.
// A caller with a credential of its own may everything here, because the registry
// decides about it; [Caller].Credential is what to ask the registry with, and
// nothing that it opens may be shown to anybody else.
//
// # Who may
//
// Rights are scopes, and those of all matching rules add up: there is no order
// and no exception. A list is asked for with [rights.List], which everybody who is known
// may; what is in it [Grant.May] decides.
//
// All of it can be replaced while requests are answered ([Guard.Replace]); each
// decision is made by one set of rules. A request that was screened by the rules
// before these has to call the server by a name that these know.
//
// Templates of instances and instances are kinds of their own, which * does not
// stand for. The address of an instance is that of its template: who may use it
// launches it and acts on what is his own, which is for the caller of the guard to
// compare; [Grant.Groups] are the groups that count for that, no older than a day.
//
// # What is recorded
//
// Every decision and every change is one record of the audit log ([Record],
// [Change]). Neither a record nor a log nor an answer ever holds a token.
//
// # Logins
//
// A login is brokered, because the tools keep the token they get for ever: the
// issuer says who somebody is, the server issues a token of its own. State, code
// and token are sealed with the [keyring.Ring], so replicas share them and nothing is
// stored. A process takes a code once; another replica would take it again within
// its minute, but only from who has the verifier too, which only the tool has.
//
// # Sessions
//
// A browser that has logged in has a cookie with what the issuer said, sealed with
// keys of its own ([Sessions]). Rights are worked out from the rules at each request.
// A portal has other keys. Its sessions are believed for the issuer's word inside, or
// the static token, and for templates and instances only.
//
// # Rules
//
// A right of a rule may name claims of the token, which are taken literally and must be
// names: nothing in a token widens a right. Rules come from the configuration and from
// a file that another program writes ([ReadRules]).
//
// # Web pages
//
// [Guard.Screen] keeps web pages away from a server that asks for no token. It is
// asked before any route.
//
// # Alternatives considered
//
// Sessions in a store: a restart or a second replica would have to share it.
// Keeping the issuer's own token for the tools: they cannot renew it. An order of
// rules with exceptions: nobody can then read from one rule what it gives.
package access
