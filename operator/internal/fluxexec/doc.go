// SPDX-License-Identifier: Apache-2.0

// Package fluxexec has a run of a module carried out by Flux: by an OCIRepository, which
// fetches the module by its digest, and a Terraform, which tofu-controller applies with
// its state in okara. [Build] is pure: the same run is the same objects, byte for byte.
// [Observe] is pure, too: it reads what the objects say. [Executor] does both on a
// cluster, destroys step by step, and approves plans.
//
// What tofu-controller does that would surprise is kept out by what is built, and by the
// order of what is done. Tests in operator/internal/rig show it on the real controller,
// under these numbers.
//
//   - T1: without its source a Terraform is not destroyed. [Executor.Destroy] makes sure
//     of the source first; the callers do of the Secrets.
//   - T2, T3: the source lies in the namespace of the run, and names a digest. Behind a
//     tag the next plan runs whatever the tag names by then. A plan counts only if its
//     revision ends in the digest.
//   - T4: an approval stays in place and approves what comes next. Each write of anything
//     else takes it back, as does the first [Executor.Apply] after it was used.
//   - T5: values are written out, or come of a Secret by varsFrom; valueFrom does
//     nothing.
//   - T6, T7: [ReadOutputs] joins an output that is no string with its type;
//     [Executor.Clean] deletes the Secret, which may outlive the Terraform.
//   - T8: a plan waits if it is pending, nobody's approval is set, and it is of the
//     present generation: it is pending for a moment in automatic runs, too.
//   - T9: names have at most 53 characters, and are labels of DNS.
//   - T12: the password of the state is in the environment, which is read for each run.
//     What backendConfigsFrom gives would be kept in the plan.
//   - T13: a suspended Terraform is not destroyed, so that [Executor.Destroy] lets it go
//     on, once it is deleted.
//   - T14: a module of more than [MaxModule] bytes is refused before there is an object.
//   - T16: a repaired Secret or source is not noticed. What changed is in the annotation
//     that asks for a run: Spec.Request, and the generation of the source.
//   - T17: an approved plan is made anew and only its id compared. The plan gate compares
//     what it would change: [Gated], [Executor.Approve].
//   - T18: without a look for drift each run plans, and repairs. [DriftOff] has no
//     second run therefore, and a run whose plans wait looks for no drift: it would tell
//     of it and never plan the repair.
//
// tofu-controller publishes no types of its objects, so that there are types for
// exactly the fields that are written; an API server with its CRD refuses others.
package fluxexec
