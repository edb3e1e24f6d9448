// SPDX-License-Identifier: Apache-2.0

package importer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/importer"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci"
)

const openDepotYAML = `apiVersion: opendepot.defdev.io/v1alpha1
kind: Depot
metadata: {name: team, namespace: platform}
spec:
  global:
    moduleConfig: {immutable: false}
  moduleConfigs:
  - {name: terraform-aws-eks, provider: aws, repoOwner: terraform-aws-modules, versionConstraints: ">= 21.10.1, != 21.13.0"}
  providerConfigs:
  - {name: aws, operatingSystems: [linux, darwin], architectures: [amd64, arm64], versionConstraints: "~> 5.80"}
  pollingIntervalMinutes: 60
---
apiVersion: v1
kind: List
items:
- apiVersion: opendepot.defdev.io/v1alpha1
  kind: Module
  metadata: {name: vpc, namespace: platform}
  spec:
    moduleConfig: {provider: aws, repoUrl: "https://git.example.com/net/vpc", immutable: true}
    versions: [{version: v1.2.0}, {version: v1.1.0}]
- apiVersion: opendepot.defdev.io/v1alpha1
  kind: Provider
  metadata: {name: example, namespace: platform}
  spec:
    providerConfig: {name: random}
    versions: [{version: 3.6.0}]
- apiVersion: v1
  kind: Secret
  metadata: {name: x}
`

const openDepotHCL = `interval = "60m"

provider "hashicorp/aws" {
  versions = "~> 5.80"
  platforms = ["linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"]
}

provider "hashicorp/random" {
  versions = "3.6.0"
}

module "platform/terraform-aws-eks/aws" {
  source = "git::https://github.com/terraform-aws-modules/terraform-aws-eks.git"
  versions = ">= 21.10.1, != 21.13.0"
  policy = "editions"
}

module "platform/vpc/aws" {
  source = "git::https://git.example.com/net/vpc.git"
  versions = "1.2.0"
  pin = ["1.1.0"]
}
`

// Shows: opendepot 16 | migration | `okara depot import` reads its resources, and writes a depot
// file or resources of an operator
func TestImportOpenDepot(t *testing.T) {
	entries, interval := must.GetBoth(importer.OpenDepot([]byte(openDepotYAML)))(t)
	got := importer.Render(entries, interval)
	must.Match(t, "value", got, openDepotHCL)
	if _, err := supply.ParseSet("depot.hcl", []byte(got)); err != nil {
		t.Errorf("the imported file does not parse: %v", err)
	}
	if _, _, err := importer.OpenDepot([]byte("a: [")); err == nil {
		t.Error("broken YAML was accepted")
	}
}

// TestImportOurs: the error for okara's own objects, as kubectl may return.
func TestImportOurs(t *testing.T) {
	src := []byte("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: okara.dev/v1alpha1, kind: Depot, metadata: {name: base}}\n")
	if _, err := importer.Kubernetes(src); !errors.Is(err, oci.ErrNotFound) || !strings.Contains(err.Error(), "depots.opendepot.defdev.io") {
		t.Errorf("%v", err)
	}
}

// FuzzOpenDepot parses arbitrary text as manifests of OpenDepot.
func FuzzOpenDepot(f *testing.F) {
	f.Add("apiVersion: opendepot.defdev.io/v1alpha1\nkind: Depot\nspec:\n  moduleConfigs: [{name: a, provider: b}]\n")
	f.Fuzz(func(_ *testing.T, text string) { _, _, _ = importer.OpenDepot([]byte(text)) })
}
