// SPDX-License-Identifier: Apache-2.0

// Package artifact says what each kind of thing that okara stores looks like:
// module, provider, template, catalog, index; package evidence does so for what is
// attached to them. It makes and reads their manifests over package oci, and is the only
// package that knows them. A kind has a file of its name.
//
// All manifests are OCI image manifests or indexes with the empty config
// ("application/vnd.oci.empty.v1+json", two bytes), built by hand in the file
// named after the kind. The shapes are those that OpenTofu, Flux and cosign
// read without okara.
//
// A module version (module.go, tag "1.4.0") is one manifest. OpenTofu takes
// its only layer of type archive/zip, Flux the first layer (TestFlux in
// internal/conformance lets its client do so), the front-end the
// description:
//
//	artifactType: application/vnd.opentofu.modulepkg
//	layers:
//	- application/vnd.cncf.flux.content.v1.tar+gzip
//	- archive/zip
//	- application/vnd.okara.module.v1+json
//	annotations: vnd.okara.{kind,address,version,content-digest}, org.opencontainers.image.*
//
// A provider version (provider.go, tag "5.1.0") is an index with one manifest
// per platform. The digest of a zip's layer is at once the zh: hash that
// lock files hold; the h1: hash is kept beside it. SHA256SUMS, its signature
// and the keys are in a manifest of their own, repeated inline while it is
// small, so that one GET of the index answers the registry protocol:
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
// A template of instances (template.go, tag "1.0.0") has one layer, the template in
// HCL's JSON syntax:
//
//	artifactType: application/vnd.okara.template.v1
//	layers:
//	- application/vnd.okara.template.v1+json
//
// The catalog (catalog.go) is a manifest of the same plain shape. A layer may be sealed,
// bound to repository and tag (sealed.go). Manifests are at most [oci.MaxManifest] bytes.
//
// What one package alone stores is described there: states in statebackend/format, jobs,
// counts of downloads, parts of the audit log and the record of a depot in the packages
// of those names, what an instance leaves below instances.
package artifact
