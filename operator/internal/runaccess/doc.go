// SPDX-License-Identifier: Apache-2.0

// Package runaccess prepares what a run of an object needs before it starts, keeps it
// fresh, and gives it back when all was destroyed:
//
//   - the record of the workspace, in which the object is the owner of the state: by it
//     okara serve lets the run in, and nobody who has its name later;
//   - NAME-okara-run, a Secret with the token for the state, for one day;
//   - NAME-okara-cli, a Secret with a CLI configuration that has the same token, for
//     modules and providers;
//   - NAME-okara-pull, a Secret for the source: the same token where the module lies in
//     okara serve, else a copy of the operator's pull Secret, if there is one;
//   - NAME-okara-ca, a ConfigMap and a Secret, with the authority of okara serve.
//
// They are written only where they are not there or ours. They have no owner reference:
// foreground deletion would take them from a Terraform that is being destroyed.
//
// # Owners
//
// A workspace that exists, or has a state, when an object first comes is another one's,
// and [*StateExistsError], unless an administrator said that it is adopted. An object
// that has run before and is not the owner any more, or whose workspace was deleted, is
// what a backup of the cluster restored, or a second cluster of this name: it is
// [*NotOwnerError] and gets no new token.
//
// The owner changes under the lock of the workspace, so that okara serve may believe who
// has the lock. The record is written in the registry; the state itself is looked at and
// deleted through okara serve, which has its keys, with a token of the operator's own.
//
// # Tokens
//
// An [Issuer] makes the tokens by which runs reach okara serve: JWTs, signed with ES256
// under a key that only the operator has. okara serve reads the public keys as an
// issuer.jwks_file, so that who breaks into it cannot make tokens, and rules there say
// what they may do, with the claims in the rights:
//
//	issuer "okara-operator.prod" {
//	  audiences = ["okara"]
//	  jwks_file = "/etc/okara/runs/jwks.json"
//	}
//	rule "runs" {
//	  issuer = "okara-operator.prod"
//	  allow  = ["write:state:prod.{namespace}/{workspace}", "read:mirror:**"]
//	}
//	rule "modules-of-runs" {
//	  issuer = "okara-operator.prod"
//	  allow  = ["read:module:{module...}"]
//	}
//
// The rule names the cluster, not the token. A module without an address has no claim
// of that name, and a rule that names a claim which is missing gives nothing: hence two.
//
// # Keys
//
// The keys are in the Secret okara-run-keys of the operator's namespace, the public ones
// in the ConfigMap okara-run-issuer, in key jwks.json. Every 30 days there is a new one.
// It is published 10 minutes before it signs, since a kubelet takes a while to bring a
// ConfigMap to its pods, and the one before stays for 25 hours, as long as a token of
// its own and an hour. The very first key signs at once: there is no other.
//
// Where a key may be known to others, delete the Secret: a new key is made within
// minutes, no other one is published any more, and all tokens are made anew.
package runaccess
