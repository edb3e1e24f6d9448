// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
)

// answering gives every request the same answer.
type answering struct {
	body   []byte
	header string // X-Terraform-Get
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	h := http.Header{"Content-Type": {"application/json"}}
	status := http.StatusOK
	if a.header != "" {
		h.Set("X-Terraform-Get", a.header)
		status = http.StatusNoContent
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r}, nil
}

// FuzzAnswer: any origin's answers yield valid results only.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		versionsJSON, packageJSON, `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`, `{"location":"git::https://example.com/vpc.git//sub?ref=v2"}`,
		`{"versions":{"1.0.0":{}}}`, `{"archives":{"linux_amd64":{"url":"../x.zip","hashes":["zh:ab"]}}}`,
	} {
		f.Add([]byte(body), "")
	}
	f.Add([]byte(nil), "../../x.zip?archive=zip")
	base := &url.URL{Scheme: "https", Host: "origin.invalid", Path: "/p/"}
	p := addr.Provider{Hostname: "origin.invalid", Namespace: "acme", Type: "dns"}
	m := addr.Module{Namespace: "net", Name: "vpc", System: "aws"}
	v := must.Get(addr.ParseVersion("1.0.0"))(f)
	f.Fuzz(func(t *testing.T, body []byte, header string) {
		c := &upstream.Client{HTTP: &http.Client{Transport: answering{body, header}}}
		registry := &upstream.Registry{Client: c, Base: base}
		mirror := &upstream.NetworkMirror{Client: c, Base: base}
		for _, s := range []interface {
			Versions(context.Context, addr.Provider) ([]addr.Version, error)
			Platforms(context.Context, addr.Provider, addr.Version) ([]addr.Platform, error)
			Package(context.Context, addr.Provider, addr.Version, addr.Platform) (upstream.Package, error)
		}{registry, mirror} {
			versions, _ := s.Versions(t.Context(), p)
			for _, v := range versions {
				if _, err := addr.ParseVersion(v.String()); err != nil {
					t.Errorf("version %q: %v", v, err)
				}
			}
			_, _ = s.Platforms(t.Context(), p, v)
			if pkg, err := s.Package(t.Context(), p, v, linux); err == nil && strings.Contains(pkg.Filename, "/") {
				t.Errorf("a package named %q", pkg.Filename)
			}
		}
		modules := &upstream.ModuleRegistry{Client: c, Base: base}
		_, _ = modules.Versions(t.Context(), m)
		l, err := modules.Location(t.Context(), m, v)
		if err == nil && (l.URL == nil || strings.Contains("/"+l.Subdir+"/", "/../")) {
			t.Errorf("a module at %+v", l)
		}
	})
}
