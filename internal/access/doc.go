// SPDX-License-Identifier: Apache-2.0

// Package access identifies the caller of a request, decides whether the request is
// allowed, and records the decision and each change in the audit log ([Record], [Change]).
// No record, log or answer contains a token.
//
// # Decisions
//
// A server makes one [Guard] and calls [Guard.Allow] before it looks anything up, so a
// refusal does not reveal whether something exists. Its argument is a [rights.Right]. The
// result is a [Grant], which knows the caller, or a [Refusal], which the server turns into
// 401 or 403. A decision needs the method, path and header of a request, never the body.
// [rights.RightTo] alone determines which right a repository needs.
//
// # Authentication
//
// The form of a token selects the one way in which it is checked. A token that fails
// its check is refused; it is not checked in another way, and its caller is not treated
// as anonymous:
//
//	oks_<id>_<secret>   a static token, whose hash is in the configuration   token.go
//	okl_<sealed>        a login through this server                          login.go
//	okr_<sealed>        a run that this server started                       run.go
//	a JWT of an issuer  OpenID Connect, algorithms with a public key         oidc.go
//	the session cookie  for the pages and their API only, if the request     session.go
//	                    has no token
//	anything else       where [Options].PassThrough allows it, the caller's  token.go
//	                    own credential for the registry
//
// The keys of an issuer are cached, so tokens with a known key stay valid while the
// issuer is down. A caller with its own registry credential has every right here,
// because the registry decides. Requests to the registry then use [Caller].Credential,
// and content that was read with it must not be shown to other callers. A signed address
// stands for a token ([Proof]): it ends with it, and is void once that is revoked.
//
// # Authorization
//
// Rights are scopes. The scopes of all matching rules add up; rules have no order and
// no exceptions. A right in a rule may name claims of the token. Their values are inserted
// literally and must be names, so nothing in a token widens a right. A list needs
// [rights.List], which every identified caller has; [Grant.May] then decides about each row.
// [Guard.Replace] replaces the policy; each decision uses one policy throughout.
//
// Templates and instances are separate kinds, which * does not include. The address of
// an instance is that of its template; the code that calls the guard compares the owner.
// [Grant.Groups] returns the groups that count for this, at most a day old.
//
// # Logins and sessions
//
// The server brokers logins, because the tools keep the token they get for ever: the
// issuer identifies the user, and the server issues its own token. State, code and
// token are sealed with the [keyring.Ring], so replicas share them and nothing is
// stored. A process accepts a code once. Another replica would accept it again within
// its minute, but only together with the verifier, which only the tool has.
//
// After a login the browser has a cookie with what the issuer said, sealed with keys
// used for sessions only ([Sessions]). The rights follow from the rules at each request.
// A session of a portal, which has different keys, counts only for templates and
// instances, and only by the proof in it: the issuer's ID token or the static token.
// [Guard.Screen] keeps web pages of other sites away from a server that asks for no token.
//
// # Alternatives considered
//
// Sessions in a store: a restart or a second replica would have to share it.
// Keeping the issuer's own token for the tools: they cannot renew it. Ordered
// rules with exceptions: one rule alone would no longer show what it grants.
package access
