// SPDX-License-Identifier: Apache-2.0

// Package plangate makes sure that only approved changes are applied.
//
// When a plan of a Terraform is approved, tofu-controller 0.16 plans anew and compares
// only the ID of the new plan, which is derived from the digest of the module. Changes
// outside the run since then are applied unseen. Before it keeps a plan, however, it
// calls webhooks, both for the first plan and for the new one. [Gate] is such a webhook.
// It computes a digest of the changes in a plan, with their values.
//
//   - If no plan is approved, the digest is written to the Terraform, where
//     [fluxexec.Observe] finds it, and the plan passes.
//   - If a plan is approved, the new one passes if its digest is the approved one.
//     Otherwise that is recorded, and the plan is refused.
//   - Plans of automatic runs pass, and those of a Terraform that is being deleted.
//
// The digest is an HMAC, since values may be secret, and more users can read a Terraform
// than its plan. The key is derived from that of the gate's certificate; after a change
// of the key, waiting plans are made again.
//
// A plan that contains the current time, by plantimestamp, differs each time, and cannot
// be approved.
//
// Callers must present certificates of the gate's authority. Their requests are bounded
// all the same: [MaxPayload] bytes, [maxDepth] levels, one at a time.
package plangate
