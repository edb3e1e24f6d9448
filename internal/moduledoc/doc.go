// SPDX-License-Identifier: Apache-2.0

// Package moduledoc reads what a module says of itself: inputs with their types
// and defaults, outputs, providers, resources, calls of other modules, readme
// and licence.
//
// A [View] shows the configuration that a package ships in the form that
// terraform-config-inspect knows. That library reads modules that do not
// validate, and it reads .tf files only, so x.tofu appears as x.tf and hides an
// x.tf beside it, as OpenTofu does it. What the library computes or recurses
// over is bounded first, by package syntax.
//
// [View.Describe] makes the description that is stored beside a module, and
// [EncodeDescription] cuts it to a size that registries take.
// [RequiredProviders] reads what a configuration needs before there is a lock
// file.
package moduledoc
