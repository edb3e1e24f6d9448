// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
)

// TestServeFlagsWin over the file, with default values too.
func TestServeFlagsWin(t *testing.T) {
	config := newFile(t, "okara.hcl", `
listen         = "127.0.0.1:1"
hostname       = "file.example.com"
pass_through   = true
used_by        = ["file"]
allow_internal = ["file"]
grace          = "1m"
tls {
  self_signed = true
}
archives {
  ttl      = "1h"
  redirect = "never"
}
cache {
  blobs = "1GiB"
}
`)
	want := server.Defaults()
	want.File = config
	want.Hostname, want.Grace, want.AllowInternal, want.Archives.Redirect = "file.example.com", "1m", []string{"file"}, "never"
	want.UsedBy, want.Cache.Blobs, want.TLS.Cert, want.TLS.Key = []string{"a", "b"}, "2GiB", "cert", "key"
	want.Archives.TTL = "4h"

	s := server.Defaults()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	addServeFlags(flags, s)
	must.Succeed(t, flags.Parse([]string{
		"--listen", "127.0.0.1:8080", "--pass-through=false", "--used-by", "a", "--used-by", "b", "--archive-ttl", "4h",
		"--cache-blobs", "2GiB", "--tls-cert", "cert", "--tls-key", "key",
	}))
	must.Succeed(t, readBelow(flags, config, s))
	must.Match(t, "settings", s, want, cmp.Comparer(func(_, _ hcl.Range) bool { return true }))
}
