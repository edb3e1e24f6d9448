// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
)

// TestVersionsAsOriginsListThem: the tools take 1.0 for 1.0.0.
func TestVersionsAsOriginsListThem(t *testing.T) {
	const listed = `"versions":[{"version":"1.0"},{"version":"v1.1.0"},{"version":"1.2.3.4"},{"version":"1.1"},{"version":"1.0.0+2"},{"version":"2","platforms":[{"os":"linux","arch":"amd64"}]}]`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		doc := "{" + listed + "}"
		if strings.HasPrefix(r.URL.Path, "/n") {
			doc = `{"versions":{"1.0":{},"1.1.0":{},"1.2.3.4":{}}}`
		}
		if strings.HasPrefix(r.URL.Path, "/m") {
			doc = `{"modules":[` + doc + `]}`
		}
		_, _ = io.WriteString(w, doc)
	}))
	defer srv.Close()
	base := func(path string) *url.URL { return must.Get(url.Parse(srv.URL + path))(t) }
	var left []string
	ctx := upstream.ReportLeftOut(t.Context(), func(listed string, why error) { left = append(left, listed+": "+why.Error()) })
	c := &upstream.Client{}
	p := addr.Provider{Hostname: "example.com", Namespace: "acme", Type: "dns"}
	providers := &upstream.Registry{Client: c, Base: base("/p/")}
	got, err := providers.Versions(ctx, p)
	if err != nil || fmt.Sprint(got) != "[2.0.0 1.1.0 1.0.0+2 1.0.0]" {
		t.Errorf("providers: %v, %v", got, err)
	}
	if platforms, err := providers.Platforms(t.Context(), p, got[0]); err != nil || len(platforms) != 1 {
		t.Errorf("platforms: %v, %v", platforms, err)
	}
	modules := &upstream.ModuleRegistry{Client: c, Base: base("/m/")}
	got, err = modules.Versions(ctx, addr.Module{Namespace: "net", Name: "vpc", System: "aws"})
	if err != nil || fmt.Sprint(got) != "[2.0.0 1.1.0 1.0.0 1.0.0+2]" {
		t.Errorf("modules: %v, %v", got, err)
	}
	mirror := &upstream.NetworkMirror{Client: c, Base: base("/n/")}
	if got, err = mirror.Versions(ctx, p); err != nil || fmt.Sprint(got) != "[1.1.0]" {
		t.Errorf("mirror: %v, %v", got, err)
	}
	slices.Sort(left)
	if len(left) != 4 || !strings.HasPrefix(left[0], "1.0: ") || !strings.HasPrefix(left[1], `1.2.3.4: version "1.2.3.4": not a semantic version`) {
		t.Errorf("left out: %q", left)
	}
}
