// SPDX-License-Identifier: Apache-2.0

// Package runtoken issues the tokens by which runs reach okara serve: JWTs, signed with
// ES256 under a key that only the operator has. okara serve reads the public keys as an
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
package runtoken
