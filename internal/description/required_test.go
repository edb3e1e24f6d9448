// SPDX-License-Identifier: Apache-2.0

package description_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestRequiredProviders(t *testing.T) {
	tree := fstest.MapFS{
		"main.tf": {Data: []byte(`
terraform {
  required_providers {
    time = { source = "hashicorp/time", version = ">=0.14" }
    dns  = { source = "example.com/acme/dns" }
  }
}
module "local" { source = "./child" }
module "far" { source = "net/vpc/aws" }
data "terraform_remote_state" "x" { backend = "local" }
resource "terraform_data" "x" {}
`)},
		"child/main.tofu": {Data: []byte(`
terraform {
  required_providers {
    time = { source = "hashicorp/time", version = "~> 0.14, != 0.14.1" }
  }
}
resource "random_id" "x" { byte_length = 4 }
`)},
		"unused/main.tf": {Data: []byte(`resource "aws_vpc" "x" {}`)},
	}
	got := must.Get(description.RequiredProviders(tree, ".", "registry.opentofu.org"))(t)
	var lines []string
	for _, r := range got {
		lines = append(lines, fmt.Sprintf("%s %q %s", r.Address, r.Text, r.Where))
	}
	want := []string{
		`example.com/acme/dns "" .`,
		`registry.opentofu.org/hashicorp/random "" child`,
		`registry.opentofu.org/hashicorp/time "!= 0.14.1, >= 0.14, ~> 0.14" .`,
	}
	must.Match(t, "value", lines, want)
}
