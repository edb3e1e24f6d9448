// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/must"
)

const (
	privatePEM = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n"
	publicPEM  = "-----BEGIN CERTIFICATE-----\n"
)

// Shows: mistakes 40 | a folder was published with the values, keys and secrets in it | they are
// left out with a warning, like files that `.gitignore` names
func TestHoldBack(t *testing.T) {
	values := newTree("main.tf", ".env", "a/.env.prod", ".env.example", "prod.tfvars", "a/b/x.auto.tfvars.json", "x.tfvars.example", "id_rsa", "id_rsa.pub",
		"ca.pem="+publicPEM, "tls.pem="+privatePEM, "tls.key="+privatePEM, "pub.key="+publicPEM, "der.key=\x30\x82", "release.asc=-----BEGIN PGP PRIVATE KEY BLOCK-----")
	ships := []string{".env.example", "ca.pem", "id_rsa.pub", "main.tf", "pub.key", "x.tfvars.example"}
	git := newTree("main.tf", ".gitignore=*.log\nbuild/\n!keep.log", "a.log", "keep.log", "build/x.txt", "build/deep/y.txt", "sub/.gitignore=/local.txt", "sub/local.txt", "sub/deep/local.txt")
	for _, tt := range []struct {
		name  string
		tree  fstest.MapFS
		hold  archive.HoldBack
		files []string
		held  []string
	}{
		{"values and keys", values, archive.HoldBack{}, ships,
			[]string{".env", "a/.env.prod", "a/b/x.auto.tfvars.json", "der.key", "id_rsa", "prod.tfvars", "release.asc", "tls.key", "tls.pem"}},
		{"in capitals", newTree("main.tf", "A.TFVARS", "sub/.Env", "ID_RSA", "TLS.PEM="+privatePEM), archive.HoldBack{}, []string{"main.tf"},
			[]string{"A.TFVARS", "ID_RSA", "TLS.PEM", "sub/.Env"}},
		{"plans, states and logins", newTree("main.tf", ".envrc", "sub/.netrc", "_netrc", "prod.tfplan", "tfplan", "terraform.tfstate~", "sub/terraform.tfstate-1", "sub/tfplan/main.tf", "my.tfplan.tf"), archive.HoldBack{},
			[]string{"main.tf", "my.tfplan.tf", "sub/tfplan/main.tf"}, []string{".envrc", "_netrc", "prod.tfplan", "sub/.netrc", "sub/terraform.tfstate-1", "terraform.tfstate~", "tfplan"}},
		{"a key far down", newTree("main.tf", "ca.pem="+strings.Repeat(publicPEM, 10_000), "chain.pem="+strings.Repeat(publicPEM, 10_000)+privatePEM), archive.HoldBack{},
			[]string{"ca.pem", "main.tf"}, []string{"chain.pem"}},
		{"what is named ships", values, archive.HoldBack{Include: []string{"*.tfvars", "/a/.env.*", "tls.*", "release.asc", "der.key"}},
			[]string{".env.example", "a/.env.prod", "ca.pem", "der.key", "id_rsa.pub", "main.tf", "prod.tfvars", "pub.key", "release.asc", "tls.key", "tls.pem", "x.tfvars.example"},
			[]string{".env", "a/b/x.auto.tfvars.json", "id_rsa"}},
		{"what git ignores", git, archive.HoldBack{}, []string{"keep.log", "main.tf", "sub/deep/local.txt"}, []string{"a.log", "build/", "sub/local.txt"}},
		{"a whole folder", git, archive.HoldBack{Include: []string{"build/"}},
			[]string{"build/deep/y.txt", "build/x.txt", "keep.log", "main.tf", "sub/deep/local.txt"}, []string{"a.log", "sub/local.txt"}},
		{"a place in a folder", git, archive.HoldBack{Include: []string{"build/deep/*"}},
			[]string{"build/deep/y.txt", "keep.log", "main.tf", "sub/deep/local.txt"}, []string{"a.log", "build/", "sub/local.txt"}},
		{"all of a folder", git, archive.HoldBack{Include: []string{"build/**", "*.log"}},
			[]string{"a.log", "build/deep/y.txt", "build/x.txt", "keep.log", "main.tf", "sub/deep/local.txt"}, []string{"build/", "sub/local.txt"}},
		{"a name is not looked for below", git, archive.HoldBack{Include: []string{"y.txt"}},
			[]string{"keep.log", "main.tf", "sub/deep/local.txt"}, []string{"a.log", "build/", "sub/local.txt"}},
		{"an ignore file says that it ships", newTree("main.tf", "a.tfvars", "b.tfvars", ".terraformignore=!a.tfvars\n*.md", "README.md"), archive.HoldBack{Include: []string{"*.md"}},
			[]string{"a.tfvars", "main.tf"}, []string{"b.tfvars"}},
		{"above, in the checkout", newTree("main.tf", "secret.txt", "x/out.txt", "vpc/main.tf"), archive.HoldBack{At: "modules/vpc", Checkout: newTree(
			".gitignore=vpc/\nout.txt\n/modules/vpc/secret.txt", "modules/.gitignore=!out.txt", "modules/vpc/.gitignore=main.tf")},
			[]string{"main.tf", "x/out.txt"}, []string{"secret.txt", "vpc/"}},
		{"what git tracks", git, archive.HoldBack{Tracked: []string{"main.tf", "build/x.txt", "sub/local.txt"}},
			[]string{"build/x.txt", "keep.log", "main.tf", "sub/deep/local.txt", "sub/local.txt"}, []string{"a.log", "build/deep/"}},
		{"a tracked file beside untracked ones", git, archive.HoldBack{Tracked: []string{"build/deep/y.txt"}},
			[]string{"build/deep/y.txt", "keep.log", "main.tf", "sub/deep/local.txt"}, []string{"a.log", "build/x.txt", "sub/local.txt"}},
		{"values of examples", newTree("main.tf", "x.tfvars", "examples/a/x.auto.tfvars", "examples/a/new.tfvars", "examples/a/.env", "examples/a/id_rsa", ".gitignore=*.tfvars"),
			archive.HoldBack{Tracked: []string{"x.tfvars", "examples/a/x.auto.tfvars", "examples/a/.env", "examples/a/id_rsa"}},
			[]string{"examples/a/x.auto.tfvars", "main.tf"}, []string{"examples/a/.env", "examples/a/id_rsa", "examples/a/new.tfvars", "x.tfvars"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hold := tt.hold
			got := mustList(t, tt.tree, archive.Options{Hold: &hold})
			must.Match(t, "files", paths(got), tt.files)
			var held []string
			for _, d := range hold.Held {
				held = append(held, d.Path)
			}
			must.Match(t, "held back", held, tt.held)
			must.Equal(t, "shipped by what git tracks", hold.ByTracked, (tt.hold.Tracked != nil))
		})
	}
	if got := paths(mustList(t, values, archive.Options{})); len(got) != len(values) {
		t.Errorf("nobody asked to hold back, and only %q ship", got)
	}
}

// TestHoldBackNamed: which globs match something, in several trees together.
func TestHoldBackNamed(t *testing.T) {
	named := &sync.Map{}
	for _, tree := range []fstest.MapFS{newTree("main.tf", "a.tfvars", "build/x.txt", ".gitignore=build/"), newTree("main.tf", "b/.env")} {
		hold := archive.HoldBack{Include: []string{"*.tfvars", "a.*", "b/.env", "/build/x.txt", "*.pem", "/.env"}, Named: named}
		mustList(t, tree, archive.Options{Hold: &hold})
	}
	want := map[string]bool{"*.tfvars": true, "a.*": true, "b/.env": true, "/build/x.txt": true, "*.pem": false, "/.env": false}
	for glob, matches := range want {
		if got, _ := named.Load(glob); got != matches {
			t.Errorf("%s: %v, want %v", glob, got, matches)
		}
	}
}

// TestHoldBackIgnored checks that a tree that git ignores ships with a notice.
func TestHoldBackIgnored(t *testing.T) {
	for _, tt := range []struct{ at, top, middle, want string }{
		{"modules/vpc", "vpc/", "", ".gitignore:1: vpc/"}, {"modules/vpc", "# all\nmodules", "", ".gitignore:2: modules"}, {"modules/vpc", "", "/vpc", "modules/.gitignore:1: /vpc"},
		{"modules/vpc", "vpc/", "!vpc/", ""}, {"modules/vpc", "/vpc/\n*.log\nvpc/*.tf", "", ""}, {".", "vpc/", "", ""},
	} {
		hold := archive.HoldBack{At: tt.at, Checkout: newTree(".gitignore="+tt.top, "modules/.gitignore="+tt.middle)}
		if got := paths(mustList(t, newTree("main.tf"), archive.Options{Hold: &hold})); len(got) != 1 || hold.Ignored != tt.want {
			t.Errorf("%+v: %q ship, ignored by %q", tt, got, hold.Ignored)
		}
	}
}
