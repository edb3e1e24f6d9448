// SPDX-License-Identifier: Apache-2.0

package portalserve_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/webtest"
	"github.com/seed-141914ff/okara/operator/internal/chart"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/portalserve"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var values = regexp.MustCompile("(?ms)^```yaml (?:values|runs).yaml\n(.*?)^```")

// TestPageLogsIn logs in at the portal that the values of the pages make: at the issuer, and
// with a static token where there is no block login.
//
// Shows: operator 44 | the values of portal-kubernetes.md give a portal at which users log in
func TestPageLogsIn(t *testing.T) {
	o := chart.Options{Dir: filepath.Join(rig.Root(), "charts", "okara"), Namespace: "okara-system", Values: map[string]any{}}
	for _, page := range []string{"kubernetes-install.md", "portal-kubernetes.md"} {
		src := must.Get(os.ReadFile(filepath.Join(rig.Root(), "docs", "kubernetes", page)))(t)
		for _, block := range values.FindAllStringSubmatch(string(src), -1) {
			must.Succeed(t, yaml.Unmarshal([]byte(block[1]), &o.Values))
		}
	}
	var file string
	for _, object := range must.Get(chart.Objects(o))(t) {
		if object.GetKind() == "ConfigMap" && object.GetName() == "okara-portal" {
			file = object.Object["data"].(map[string]any)["portal.hcl"].(string)
		}
	}
	key := filepath.Join(t.TempDir(), "session.key")
	must.Succeed(t, os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600))
	issuer := webtest.NewIssuer(t)
	file = strings.NewReplacer("/etc/okara/keys/session.key", key, "https://idp.example.com", issuer.URL).Replace(file)
	login := regexp.MustCompile(`(?ms)^login \{.*?^\}\n`)
	token := fmt.Sprintf("token \"anna\" {\n  sha256 = \"%x\"\n  scopes = [\"read:template:**\"]\n}\n", sha256.Sum256([]byte(tokenOf("anna"))))
	for name, tt := range map[string]struct{ file, form string }{
		"issuer": {file, ""},
		"token":  {login.ReplaceAllString(file, token), "token=" + tokenOf("anna")},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "portal.hcl")
			must.Succeed(t, os.WriteFile(path, []byte(tt.file), 0o600))
			portal, _ := must.GetBoth(portalserve.New(portalserve.Options{File: path, Namespace: "okara-instances", Client: must.Get(client.New(cluster.Admin(t), client.Options{Scheme: scheme(t)}))(t), Clock: &instancectl.Clock{}}))(t)
			server := httptest.NewTLSServer(portal)
			t.Cleanup(server.Close)
			browser := &http.Client{Jar: must.Get(cookiejar.New(nil))(t), Transport: &http.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the server of this test
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if strings.HasPrefix(addr, "portal.example.com:") {
						addr = server.Listener.Addr().String()
					}
					return (&net.Dialer{}).DialContext(ctx, network, addr)
				},
			}}
			t.Cleanup(browser.CloseIdleConnections)
			at := "https://portal.example.com/ui/login?to=" + url.QueryEscape("/ui/me")
			r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil))(t)
			if tt.form != "" {
				r = must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(tt.form)))(t)
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Origin", "https://portal.example.com")
			}
			resp := must.Get(browser.Do(r))(t)
			defer resp.Body.Close()
			resp = must.Get(browser.Get("https://portal.example.com/ui/me"))(t)
			defer resp.Body.Close()
			page := must.Get(io.ReadAll(resp.Body))(t)
			if !strings.Contains(strings.ToLower(string(page)), "me: anna") {
				t.Errorf("%s: nobody is logged in:\n%s", resp.Status, page)
			}
		})
	}
}
