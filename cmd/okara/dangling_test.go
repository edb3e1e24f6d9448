// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestDanglingTags lists and shows artifacts of a registry that crashed while it wrote tags:
// such tags are listed, and their GET is 404.
//
// Shows: mistakes 25
func TestDanglingTags(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	var lost atomic.Bool // blobs
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lost.Load() && strings.Contains(r.URL.Path, "/blobs/") {
			http.NotFound(w, r)
			return
		}
		g.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	registry := "--registry=" + strings.TrimPrefix(server.URL, "http://") + "/acme"
	mustOkara(t, "publish", "module", newModuleDir(t), "net/vpc/aws", "1.0.0", registry)
	event := "okara-status-1700000000000-0123456789abcdef"
	entry := artifact.CatalogTag("acme/modules/net/dns/aws")
	g.Add("acme/modules/net/vpc/aws", "2.0.0")
	g.Add("acme/modules/net/vpc/aws", event)
	g.Add("acme/catalog", entry)
	for _, tt := range []struct {
		args []string
		code int
		out  string
		err  []string
	}{
		{[]string{"list"}, cli.ExitOK, "net/vpc/aws", []string{entry}},
		{[]string{"list", "net/vpc/aws"}, cli.ExitOK, "1.0.0", []string{event}},
		{[]string{"show", "net/vpc/aws"}, cli.ExitOK, "1.0.0", []string{event, "tag 2.0.0)"}},
		{[]string{"show", "net/vpc/aws@2.0.0"}, cli.ExitNotFound, "", []string{"tag 2.0.0)"}},
		{[]string{"admin", "doctor", "artifacts"}, cli.ExitFailure, "2.0.0", nil},
	} {
		o := okara(t, append(tt.args, registry)...)
		if o.code != tt.code || !strings.Contains(o.out, tt.out) {
			t.Errorf("%v: exit %d, %s\n%s", tt.args, o.code, o.out, o.err)
		}
		for _, want := range tt.err {
			if strings.Count(o.err, want) != 1 {
				t.Errorf("%v: stderr without one warning of %s:\n%s", tt.args, want, o.err)
			}
		}
	}
	lost.Store(true)
	if o := okara(t, "verify", "net/vpc/aws@1.0.0", "--deep", registry); o.code != cli.ExitFailure || !strings.Contains(o.out, "failed") {
		t.Errorf("verify of a version without blobs: exit %d, %s\n%s", o.code, o.out, o.err)
	}
	lost.Store(false)
	found := okara(t, "admin", "doctor", "artifacts", registry).out
	for _, tag := range []string{"2.0.0", event, entry} {
		if !strings.Contains(found, tag) {
			t.Errorf("doctor does not tell of %s:\n%s", tag, found)
		}
	}
}
