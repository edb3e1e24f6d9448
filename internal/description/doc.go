// SPDX-License-Identifier: Apache-2.0

// Package description extracts the description of a module: inputs with their types and defaults,
// outputs, providers, resources, calls of other modules, readme and licence.
//
// A [Module] presents the configuration in a package in the form that terraform-config-inspect
// supports, which reads modules that do not validate. In OpenTofu x.tofu hides x.tf, and Terraform
// reads no x.tofu; a directory with such files is read as both do. Input that the library evaluates
// or recurses over is bounded first, by package syntax.
//
// [Module.Describe] creates the description that is stored beside a module, and [EncodeDescription]
// shortens it to a size that registries accept. [RequiredProviders] returns the providers that a
// configuration needs before a lock file exists.
//
// # Providers
//
// [ReadDocs] reads the documentation of a provider: the directory docs/ of its source, in the form
// that the registries of the tools accept
// (https://developer.hashicorp.com/terraform/registry/providers/docs), packed as a gzipped tar.
//
// A page is Markdown with YAML front matter, of which the title and the subcategory are used. The
// path determines the subject of the page: resources/record.md, or r/record.html.md in the older
// form. Other files are ignored.
//
// The documentation is untrusted: [ReadDocs] bounds the number of bytes and files and the length of
// a page and of its front matter, and rejects names that leave the directory.
package description
