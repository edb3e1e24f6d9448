// SPDX-License-Identifier: Apache-2.0

// Package helm has a chart installed by Flux: by a source, and a HelmRelease which
// helm-controller carries out. It is to charts what fluxexec is to modules: [Build] and
// [Observe] are pure, [Executor] does it on a cluster.
//
// What helm-controller does that would surprise, with a test on the real one in
// operator/internal/rig:
//
//   - H1: without an account it acts as itself, which may do anything. A Spec names one.
//   - H2: without its account nothing is uninstalled, and the release goes all the same
//     [TestTrapAccount]. [Executor.Destroy] deletes no release whose account is not there,
//     and the callers keep it until the release is gone.
//   - H3: a suspended release goes without being uninstalled [TestExecutorKeepsRelease].
//     That is how Spec.Keep works; else [Executor.Destroy] ends the suspension first.
//   - H4: the HelmChart of a suspended release stays: [Executor.Clean] deletes it.
//   - H5: what failed as often as it may is not tried again when somebody asks: each
//     attempt resets what was counted.
//
// What a chart means now is for source-controller to say, too: [Executor.Resolve].
package helm
