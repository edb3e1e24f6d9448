// SPDX-License-Identifier: Apache-2.0

// Package fluxexec has a [Work] carried out by Flux: the run of a module, a [Spec], by an
// OCIRepository, which fetches the module by its digest, and a Terraform, which
// tofu-controller applies with its state in okara; and the [Release] of a chart by a source
// and a HelmRelease, which helm-controller carries out. [Build] is pure: the same work is
// the same objects, byte for byte. [Observe] is pure, too: it reads what the objects say.
// [Executor] does both on a cluster, destroys step by step, and approves plans. What a
// chart means now is for source-controller to say: [Executor.Resolve].
//
// What tofu-controller does that would surprise is kept out by what is built, and by the
// order of what is done. In brackets is the test of operator/internal/rig that shows it on
// the real controller; those of the executor there are TestExecutor… and TestGateHolds.
//
//   - T1: without its source a Terraform is not destroyed [TestTrapSource].
//     [Executor.Destroy] makes sure of the source first; the callers do of the Secrets.
//   - T2: a source of another namespace is refused [TestTrapNamespace]. It lies in that of
//     the run.
//   - T3: behind a tag the next plan runs whatever the tag names by then [TestTrapTag].
//     The source names a digest, and a plan counts only if its revision ends in it.
//   - T4: an approval stays in place and approves what comes next [TestTrapApproval]. Each
//     write of anything else takes it back, as does the first [Executor.Apply] after it
//     was used.
//   - T5: valueFrom does nothing [TestTrapValueFrom]. Values are written out, or come of a
//     Secret by varsFrom.
//   - T6, T7: an output that is no string has its type beside it [TestFluxRunsAModule],
//     and [ReadOutputs] joins them; the Secret may outlive the Terraform, and
//     [Executor.Clean] deletes it.
//   - T8: a plan is pending for a moment where nobody has to approve it [TestTrapPending].
//     It waits if no approval is set, and it is of the present generation.
//   - T9: names have at most 53 characters, and are labels of DNS. Where runners are pods,
//     other names are made of them; tests have no pods.
//   - T10: fileMappings are not used.
//   - T11: a warning of tofu's breaks a run [TestTrapSettings]. What makes it talk is no
//     variable of the runner's environment.
//   - T12: what the environment takes of a Secret is read for each run
//     [TestTrapEnvironment]: the password of the state is there. What backendConfigsFrom
//     gives would be kept in the plan.
//   - T13: a suspended Terraform is not destroyed [TestTrapSuspend]. [Executor.Destroy]
//     lets it go on, once it is deleted: before, it would run once more.
//   - T14: a module travels in one message of 4 MiB [TestTrapSize]. One of more than
//     [MaxModule] bytes is refused before there is an object.
//   - T15: plans are in Secrets, with all variables. Encryption is for both
//     [TestExecutorSeals].
//   - T16: a repaired Secret or source is not noticed [TestTrapSettings]. What changed is
//     in the annotation that asks for a run: Spec.Request, and the generation of the
//     source [TestExecutorRepairs].
//   - T17: an approved plan is made anew, and only its id compared [TestTrapGate]. The
//     plan gate compares what it would change: [Gated], [Executor.Approve].
//   - T18: without a look for drift each run plans, and repairs [TestTrapDrift];
//     [DriftIgnore] has no second run therefore. With it, a run whose plans wait tells of
//     drift and never plans the repair [TestTrapManualDrift]: it has none, but for
//     [DriftReport].
//
// What helm-controller does that would surprise, with a test on the real one in
// operator/internal/rig:
//
//   - H1: without an account it acts as itself, which may do anything. A Release names one.
//   - H2: without its account nothing is uninstalled, and the release goes all the same
//     [TestTrapAccount]. [Executor.Destroy] deletes no release whose account is not there,
//     and the callers keep it until the release is gone.
//   - H3: a suspended release goes without being uninstalled [TestExecutorKeepsRelease].
//     That is how Release.Keep works; else [Executor.Destroy] ends the suspension first.
//   - H4: the HelmChart of a suspended release stays: [Executor.Clean] deletes it.
//   - H5: what failed as often as it may is not tried again when somebody asks: each
//     attempt resets what was counted.
//
// tofu-controller publishes no types of its objects, so that there are types for
// exactly the fields that are written; an API server with its CRD refuses others.
package fluxexec
