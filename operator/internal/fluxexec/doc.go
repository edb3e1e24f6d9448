// SPDX-License-Identifier: Apache-2.0

// Package fluxexec turns a run of a module into objects that Flux carries out: an
// OCIRepository, which fetches the module by its digest, and a Terraform, which
// tofu-controller applies with its state in okara. [Build] is pure: the same run is the
// same objects, byte for byte.
//
// What tofu-controller does that would surprise is kept out by what is built. Tests in
// operator/internal/rig show some of it on the real controller, under these numbers.
//
//   - T2, T3: the source lies in the namespace of the run, and names a digest. Behind a
//     tag the next plan runs whatever the tag names by then.
//   - T5: values are written out, or come of a Secret by varsFrom; valueFrom does
//     nothing.
//   - T9: names have at most 53 characters, and are labels of DNS.
//   - T12: the password of the state is in the environment, which is read for each run.
//     What backendConfigsFrom gives would be kept in the plan.
//   - T14: a module of more than [MaxModule] bytes is refused before there is an object.
//
// tofu-controller publishes no types of its objects, so that there are types for
// exactly the fields that are written; an API server with its CRD refuses others.
package fluxexec
