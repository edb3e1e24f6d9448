// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

func TestOpenRepo(t *testing.T) {
	for _, test := range []struct {
		in, host, name string // empty host: an error with name in it
	}{
		{"registry.example.com/acme/state", "registry.example.com", "acme/state"},
		{"localhost:5000/a", "localhost:5000", "a"},
		{"[::1]:5000/a/b", "[::1]:5000", "a/b"},
		{"docker.io/library/x", "docker.io", "library/x"},
		{"r.example.com/a.b/c_d/e__f/g-h/i--j", "r.example.com", "a.b/c_d/e__f/g-h/i--j"},
		{"", "", "no registry"},
		{"registry.example.com", "", "no path"},
		{"registry.example.com/", "", "lower-case"},
		{"https://registry.example.com/a", "", "remove the scheme"},
		{"oci://user:password@registry.example.com/a", "", "remove the scheme"},
		{"user:password@registry.example.com/a", "", "credentials do not belong"},
		{"registry.example.com/A", "", "lower-case"},
		{"registry.example.com/a:1.0", "", `remove ":1.0"`},
		{"registry.example.com/a@sha256:00", "", "no tag or digest belongs here"},
		{"registry.example.com/a//b", "", "lower-case"},
		{"registry.example.com/../a", "", "lower-case"},
		{"registry.example.com/" + strings.Repeat("a", 256), "", "longer than 255"},
		{"bad host/a", "", "not host[:port]"},
	} {
		t.Run(test.in, func(t *testing.T) {
			r, err := oci.OpenRepo(test.in, oci.Options{})
			if test.host == "" {
				if err == nil || !strings.Contains(err.Error(), test.name) || strings.Contains(err.Error(), "password") {
					t.Errorf("got %v, want an error with %q", err, test.name)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Host() != test.host || r.Name() != test.name || r.String() != test.in {
				t.Errorf("got %q, %q, %q", r.Host(), r.Name(), r)
			}
		})
	}
}

func TestPrefix(t *testing.T) {
	c := must.Get(oci.New("registry.example.com/acme/tf", oci.Options{}))(t)
	r := must.Get(c.Repo("state/shop"))(t)
	if c.Host() != "registry.example.com" || r.Name() != "acme/tf/state/shop" || r.String() != "registry.example.com/acme/tf/state/shop" {
		t.Errorf("host %q, name %q, %s", c.Host(), r.Name(), r)
	}
	for _, bad := range []string{"registry.example.com/", "registry.example.com/A", "registry.example.com//a"} {
		if _, err := oci.New(bad, oci.Options{}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
