// SPDX-License-Identifier: Apache-2.0

// Package runaccess prepares what a run of an object needs before it starts, renews it,
// and releases it when everything was destroyed:
//
//   - the record of the workspace, which names the object as the owner of the state.
//     okara serve admits only runs of the owner, and no later object of the same name;
//   - NAME-okara-run, a Secret with the token for the state, valid for one day;
//   - NAME-okara-cli, a Secret with a CLI configuration that has the same token, for
//     modules and providers;
//   - NAME-okara-pull, a Secret for the source: the same token if the module is in okara
//     serve, otherwise a copy of the operator's pull Secret, if there is one;
//   - NAME-okara-ca, a ConfigMap and a Secret with the authority of okara serve.
//
// An existing object is written only if it is ours. The objects have no owner reference,
// since foreground deletion would delete them before a Terraform that is being destroyed.
//
// # Owners
//
// If a workspace or its state exists when an object first runs, it belongs to another
// object: the error is a [*StateExistsError], unless an administrator allows adoption. An
// object that has run before and is no longer the owner, or whose workspace was deleted,
// was restored from a backup of the cluster, or belongs to a second cluster of this name:
// the error is a [*NotOwnerError], and it gets no new token.
//
// The owner changes under the lock of the workspace, so that okara serve can trust the
// holder of the lock. The record is written in the registry. The state itself is read and
// deleted through okara serve, which has its keys, with a token of the operator.
//
// # Tokens
//
// An [Issuer] issues the tokens by which runs reach okara serve: JWTs, signed with ES256
// by a key that only the operator has. okara serve reads the public keys as an
// issuer.jwks_file, so that an intruder there cannot issue tokens. Rules there grant the
// rights of runs, with the claims of the token in them:
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
// The rule names the cluster, not the token. There are two rules because the token of a
// module without an address lacks the claim module, and a rule that names a missing claim
// grants nothing.
//
// # Keys
//
// The keys are in the Secret okara-run-keys of the operator's namespace, the public ones
// in the ConfigMap okara-run-issuer, in key jwks.json. A new key is created every 30
// days. It is published 10 minutes before it signs, since a kubelet takes a while to
// update a ConfigMap in pods. The previous key stays published for 25 hours: the lifetime
// of its tokens and one hour. The very first key signs at once, since there is no other.
//
// If a key may have leaked, delete the Secret: a new key is created within minutes, the
// old keys are no longer published, and all tokens are renewed.
package runaccess
