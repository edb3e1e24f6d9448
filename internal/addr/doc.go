// SPDX-License-Identifier: Apache-2.0

// Package addr parses and prints the addresses of modules and providers, their
// versions and platforms, and maps them to repository names and tags.
//
// # Addresses and names
//
// A module is namespace/name/system, a provider is namespace/type or host/namespace/type. The case
// of letters makes no difference, except in a system, which has no upper case. The clients allow
// more than an OCI repository name can hold: "___", letters outside ASCII. Such addresses are
// refused, never escaped, truncated or hashed, so two addresses never share a repository. The only
// mapped character is ":" before the port of a provider's host, which becomes "_"; host names have
// no "_", so the mapping is reversible.
//
// # Versions and tags
//
// A [Version] is strict SemVer 2.0.0. Its tag is the version with "+" written
// as "_"; SemVer has no "_", so this is a bijection. [VersionFromTag] refuses
// every tag that is not exactly such a version: "1.2", "latest" and "01.2.3"
// are not versions, although OpenTofu reads some of them as one.
//
// # Layout
//
// A [Layout] has one template per kind of repository. Templates are reversible: [Layout.Parse]
// turns a repository name into the address that is stored there. [Layout.Validate] refuses
// templates that are not reversible, and two templates that could produce the same name. The name
// of the ledger repository also stands for the same name with a number appended. Instances may
// share a repository, which then identifies only the parts that its template names.
//
// # Constraints
//
// A [Constraint] follows OpenTofu and Terraform ("~> 1.0, != 1.0.3"), including
// their rule that a pre-release is selected only by naming it exactly.
//
// Alternatives considered: hashicorp/go-version also parses the constraint
// syntax, but lets ">= 1.0.0-rc.1" select 1.0.0-rc.2, which neither client does.
package addr
