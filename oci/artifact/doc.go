// SPDX-License-Identifier: Apache-2.0

// Package artifact defines the layout of the artifacts that okara stores: module, provider,
// template, catalog and index, each in a file of its name. Package oci/artifact/evidence does the
// same for signatures, reports and status events. No other package knows the layout of their
// manifests.
//
// All manifests are OCI image manifests or indexes with the empty config
// ("application/vnd.oci.empty.v1+json", two bytes), which OpenTofu, Flux and cosign can read.
//
// A module version (module.go, tag "1.4.0") is one manifest. OpenTofu uses its only layer of type
// archive/zip, Flux the first layer, the front-end the description:
//
//	artifactType: application/vnd.opentofu.modulepkg
//	layers:
//	- application/vnd.cncf.flux.content.v1.tar+gzip
//	- archive/zip
//	- application/vnd.okara.module.v1+json
//	annotations: vnd.okara.{kind,address,version,content-digest}, org.opencontainers.image.*
//
// A provider version (provider.go, tag "5.1.0") is an index with one manifest per platform. The
// digest of a zip's layer equals the zh: hash in lock files; the h1: hash is stored in an
// annotation. SHA256SUMS, its signature and the keys are in a manifest of their own, repeated
// inline while it is small, so that one GET of the index answers the registry protocol:
//
//	artifactType: application/vnd.opentofu.provider
//	manifests:
//	- artifactType: application/vnd.opentofu.provider-target
//	  platform: {os: linux, architecture: amd64}
//	  annotations: vnd.okara.provider.{filename,zh,h1,size}
//	- artifactType: application/vnd.okara.provider.metadata.v1
//	  data: <the metadata manifest, up to 32 KiB>
//	annotations: vnd.okara.provider.{protocols,signature}, …
//
// A template of instances (template.go, tag "1.0.0") has one layer, the template in HCL's JSON
// syntax:
//
//	artifactType: application/vnd.okara.template.v1
//	layers:
//	- application/vnd.okara.template.v1+json
//
// The catalog (catalog.go) is a manifest of the same simple form. A layer may be sealed, which
// binds it to repository and tag (sealed.go). Manifests have at most [oci.MaxManifest] bytes.
//
// Data that only one package stores is described in that package: states in statebackend/format,
// jobs, download counts, parts of the audit log and the record of a depot in the packages of those
// names, the records of an instance below instances.
package artifact
