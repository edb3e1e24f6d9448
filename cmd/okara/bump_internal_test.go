// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestChangedMarkdown: bounded, and users' text stays code.
func TestChangedMarkdown(t *testing.T) {
	m := changedModule{Address: "net/vpc/aws", From: "1.0.0", To: "1.0.1", Changes: []string{"fix: ``` @here ` #1"}}
	if got, want := changedMarkdown([]changedModule{m}), "\n- commit: ```` fix: ``` @here ` #1 ````\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%q does not end in %q", got, want)
	}
	refused := changedModule{Address: "net/vpc/aws", From: "1.0.0", Error: "no history", Differences: []description.Difference{{Breaking: true}}}
	if got, want := changedMarkdown([]changedModule{refused}), "| **refused** |\n\n**net/vpc/aws**: `no history`\n"; !strings.HasSuffix(got, want) || refused.isUnannounced() {
		t.Errorf("%q does not end in %q, or the module breaks callers", got, want)
	}
	for range 1000 {
		m.Changes = append(m.Changes, strings.Repeat("x", 200))
	}
	got := changedMarkdown([]changedModule{m, m})
	if len(got) > 65536 || !strings.Contains(got, "Lines omitted: ") {
		t.Errorf("%d bytes, which end in %q", len(got), got[len(got)-100:])
	}
}

// TestBumpBesideOthers: the tag of a chart, which looks like a version, is not the highest release.
func TestBumpBesideOthers(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	dir := t.TempDir()
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "vpc"), 0o700))
	mustWrite(t, filepath.Join(dir, "vpc", "main.tf"), []byte("locals {}\n"))
	one := []string{"publish", "module", filepath.Join(dir, "vpc"), "net/vpc/aws", "--bump", "minor", "--registry", host}
	all := []string{"publish", "modules", dir, "net/{name}/aws", "--bump", "minor", "--registry", host}
	want := func(args []string, text string) {
		t.Helper()
		if o := okara(t, args...); o.code != cli.ExitOK || !strings.Contains(o.out+o.err, text) {
			t.Errorf("exit %d, no %q\n%s%s", o.code, text, o.out, o.err)
		}
	}
	want(one, "net/vpc/aws:0.1.0@")
	repo := depottest.MustRepo(t, must.Get(oci.New(host, oci.Options{}))(t), "modules/net/vpc/aws")
	must.Succeed(t, artifact.PutBare(t.Context(), repo, "7.0.0", must.Get(artifact.NewBare("application/vnd.cncf.helm.config.v1+json", nil))(t)))
	want(one, "net/vpc/aws:0.1.0@")
	want(all, "unchanged since 0.1.0")
	mustWrite(t, filepath.Join(dir, "vpc", "main.tf"), []byte("locals { a = 1 }\n"))
	want(append(one, "--dry-run"), "net/vpc/aws 0.2.0")
	want(all, "net/vpc/aws:0.2.0@")
}
