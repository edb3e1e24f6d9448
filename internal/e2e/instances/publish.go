// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

const module = `terraform {
  required_providers {
    time = {
      source = "okara.test/acme/time"
    }
  }
}
variable "name" {
  type = string
}
variable "size" {
  type    = string
  default = "small"
}
variable "seconds" {
  type    = number
  default = 1
}
resource "time_sleep" "made" {
  create_duration = "${var.seconds}s"
  triggers        = { size = var.size }
}
output "url" {
  value = "https://${var.name}.sandbox.example.com/${time_sleep.made.id}"
}
`

const templates = `
template "demo/app" {
  module { address = "acme/app/time" }
  per_owner = 1
  parameter "size" { enum = ["small", "large"] }
  inputs  = { name = id, seconds = 4 }
  outputs = ["url"]
  ttl {
    default = "10m"
    max     = "12m"
    extend  = "1m"
    extends = 2
  }
}
template "demo/shared" {
  module { address = "acme/app/time" }
  owner      = "group"
  groups     = ["team-*"]
  inputs     = { name = id }
  protection = true
  ttl { default = "10m" }
}
template "demo/pooled" {
  module { address = "acme/app/time" }
  inputs = { name = id }
  ttl { default = "10m" }
  pool {
    size       = 2
    max        = 4
    when_empty = "refuse"
  }
}
template "demo/guarded" {
  module { address = "acme/app/time" }
  approval = "plan"
  parameter "size" {
    enum   = ["small", "large"]
    update = true
  }
  inputs = { name = id }
  ttl { default = "10m" }
}
template "demo/slow" {
  module { address = "acme/app/time" }
  inputs = { name = id, seconds = 25 }
  ttl { default = "10m" }
}
`

// publish puts the module and a real provider into the registry, signed by a new key.
func (w *world) publish(ctx context.Context) error {
	dir := w.path("module")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(module), 0o600); err != nil {
		return err
	}
	if _, err := w.okara(ctx, "publish", "module", dir, "acme/app/time", "1.0.0"); err != nil {
		return err
	}
	keys, err := w.okara(ctx, "keys", "new", "--name", "okara demo", "--dir", w.path("keys"), "--quiet")
	if err != nil {
		return err
	}
	_, key, _ := strings.Cut(strings.TrimSpace(string(keys)), "\t")
	_, err = w.okara(ctx, "publish", "provider", filepath.Join(w.root, ".cache/provider/time/0.14.2"), "acme/time", "0.14.2", "--sign-key", key)
	return err
}
