// SPDX-License-Identifier: Apache-2.0

// Package description reads what a module says of itself: inputs with their types
// and defaults, outputs, providers, resources, calls of other modules, readme
// and licence.
//
// A [Module] shows the configuration that a package ships in the form that
// terraform-config-inspect knows. That library reads modules that do not
// validate, and it reads .tf files only, so x.tofu appears as x.tf and hides an
// x.tf beside it, as OpenTofu does it. What the library computes or recurses
// over is bounded first, by package syntax.
//
// [Module.Describe] makes the description that is stored beside a module, and
// [EncodeDescription] cuts it to a size that registries take.
// [RequiredProviders] reads what a configuration needs before there is a lock
// file.
//
// # Providers
//
// [ReadDocs] reads the documentation of a provider: the folder docs/ of
// its source, as the registries of the tools take it
// (https://developer.hashicorp.com/terraform/registry/providers/docs), packed as a
// tar and gzipped.
//
// A page is Markdown with YAML before it, of which the title and the subcategory
// count. What the page is of, its path says: resources/record.md, or r/record.html.md
// in the older form. Other files are passed over.
//
// All of it is the work of others: [ReadDocs] bounds the bytes, the files, the length of
// a page and of what is before it, and takes no name that leaves the folder.
package description
