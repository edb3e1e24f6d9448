// SPDX-License-Identifier: Apache-2.0

// Package fluxexec has a [Work] carried out by Flux. The run of a module, a [Spec],
// becomes an OCIRepository, which fetches the module by its digest, and a Terraform,
// which tofu-controller applies with its state in okara. The [Release] of a chart becomes
// a source and a HelmRelease, which helm-controller carries out. [Build] is pure: equal
// work yields equal objects, byte for byte. [Observe] is pure, too, and reads the status
// of the objects. [Executor] does both on a cluster, destroys step by step, and approves
// plans. [Executor.Resolve] asks source-controller for the current version of a chart.
//
// tofu-controller has some surprising behaviour. The built objects and the order of the
// steps avoid it. In brackets is the test in operator/internal/rig that demonstrates it
// on the real controller; the tests of the executor there are TestExecutor… and
// TestGateHolds.
//
//   - T1: without its source a Terraform is not destroyed [TestTrapSource].
//     [Executor.Destroy] ensures the source first; the callers ensure the Secrets.
//   - T2: a source in another namespace is refused [TestTrapNamespace]. The source is
//     therefore in the namespace of the run.
//   - T3: with a tag the next plan runs whatever the tag names by then [TestTrapTag].
//     The source names a digest, and a plan counts only if its revision ends in it.
//   - T4: an approval stays in place and approves the next plan, too [TestTrapApproval].
//     Every other write revokes it, as does the first [Executor.Apply] after it was used.
//   - T5: valueFrom has no effect [TestTrapValueFrom]. Values are written out, or come
//     from a Secret by varsFrom. tofu-controller writes them before init to
//     generated.auto.tfvars.json, which every command reads: the source of a module may
//     depend on them.
//   - T6, T7: an output that is not a string has its type beside it
//     [TestFluxRunsAModule], and [ReadOutputs] joins them; the Secret may outlive the
//     Terraform, and [Executor.Clean] deletes it.
//   - T8: a plan is briefly pending even if it needs no approval [TestTrapPending].
//     It waits only if no approval is set and it is of the current generation.
//   - T9: names have at most 53 characters, and are DNS labels. Where runners are pods,
//     other names are derived from them; tests have no pods.
//   - T10: fileMappings are not used.
//   - T11: a warning from tofu breaks a run [TestTrapSettings]. Variables that make tofu
//     print more are rejected in the runner's environment.
//   - T12: environment variables from a Secret are read for each run
//     [TestTrapEnvironment], so the password of the state is passed that way. Values from
//     backendConfigsFrom would be kept in the plan.
//   - T13: a suspended Terraform is not destroyed [TestTrapSuspend]. [Executor.Destroy]
//     resumes it after deleting it: resumed earlier, it would run once more.
//   - T14: a module is sent in one message of 4 MiB [TestTrapSize]. A module of more than
//     [MaxModule] bytes is refused before any object is created.
//   - T15: plans are in Secrets, with all variables. Encryption covers state and plans
//     [TestExecutorSeals].
//   - T16: a repaired Secret or source is not noticed [TestTrapSettings]. The annotation
//     that requests a run therefore contains the changes: Spec.Request, and the
//     generation of the source [TestExecutorRepairs].
//   - T17: an approved plan is made anew, and only its ID compared [TestTrapGate]. The
//     plan gate compares the planned changes: [Gated], [Executor.Approve].
//   - T18: without drift detection each run plans, and repairs [TestTrapDrift];
//     [DriftIgnore] therefore has no second run. With it, a run whose plans wait for
//     approval reports drift and never plans the repair [TestTrapManualDrift]: such a run
//     has no drift detection, except for [DriftReport].
//
// helm-controller has some surprising behaviour, too, with tests on the real one in
// operator/internal/rig:
//
//   - H1: without an account it acts as itself, with unlimited rights. A Release names one.
//   - H2: without its account nothing is uninstalled, and the release is removed anyway
//     [TestTrapAccount]. [Executor.Destroy] deletes no release whose account is missing,
//     and the callers keep the account until the release is gone.
//   - H3: a suspended release is removed without being uninstalled
//     [TestExecutorKeepsRelease]. Release.Keep relies on this; otherwise
//     [Executor.Destroy] ends the suspension first.
//   - H4: the HelmChart of a suspended release stays: [Executor.Clean] deletes it.
//   - H5: a release that has used up its retries is not retried on request: each attempt
//     therefore resets the counters.
//
// Sources and releases have the Go types of Flux's controllers. tofu-controller publishes
// none: this package has types for exactly the fields of a Terraform that it writes; an API
// server with its CRD rejects others.
package fluxexec
