// SPDX-License-Identifier: Apache-2.0

// Package plangate has what was approved applied, and nothing else.
//
// When a plan of a Terraform is approved, tofu-controller 0.16 plans anew and compares
// the id of the new plan alone, which is made of the module's digest: whatever changed in
// the world since is applied unseen. Before it keeps a plan it calls webhooks, though,
// for the first plan as for that one. [Gate] is such a webhook. It makes a digest of
// what a plan would change, with the values.
//
//   - Nothing is approved: the digest is written to the Terraform, where
//     [fluxexec.Observe] finds it, and the plan passes.
//   - A plan is approved: it passes if its digest is the approved one. Else that is
//     written down, and the plan is refused.
//   - Plans of automatic runs pass, and those of a Terraform that is being deleted.
//
// The digest is an HMAC, since values may be secrets, and a Terraform can be read by more
// people than its plan. Its key is derived from that of the gate's certificate: a new one
// has plans that wait made again.
//
// A plan that has the time in it, by plantimestamp, is another one each time, and cannot
// be approved.
//
// The callers show certificates of the authority that the gate has. What comes from them
// is bounded all the same: [MaxPayload] bytes, [maxDepth] levels, one at a time.
package plangate
