// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// closed is a forge for a token alone, which records.
type closed struct {
	*forge
	token string // "": no token is needed

	mu    sync.Mutex // guards the field below
	asked []string
}

func (c *closed) answer(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	user, password, _ := r.BasicAuth()
	resp, err := c.forge.answer(r, next)
	line := r.Method + " " + r.URL.Host + r.URL.Path
	switch {
	case err != nil:
		return nil, err
	case c.token != "" && r.URL.Host != "codeload.github.com" && !strings.HasSuffix(r.URL.Path, "/access_tokens") &&
		r.Header.Get("Authorization") != "Bearer "+c.token && (user == "" || password != c.token):
		resp.StatusCode, resp.Status = http.StatusUnauthorized, "401 Unauthorized"
		line += " 401"
	case resp.Header.Get("Content-Type") == "application/json" && resp.StatusCode == http.StatusOK:
		if resp.Header.Set("ETag", `"1"`); r.Header.Get("If-None-Match") == `"1"` {
			resp.StatusCode, resp.Status, resp.Body = http.StatusNotModified, "304 Not Modified", http.NoBody
			line += " 304"
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, line)
	return resp, nil
}

// take returns the requests since the last call.
func (c *closed) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.asked
	c.asked = nil
	return out
}

// secret creates a Secret for the host of an origin.
func (s *site) secret(host string, data map[string]string) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "forge", Annotations: map[string]string{v1alpha1.AnnotationUse: host}}, StringData: data}
	must.Succeed(s.t, s.Create(s.t.Context(), secret))
}

// TestAnIdleRunAsksItsOriginOnce counts the requests of a run in which nothing is new, to
// origins with and without a token: the numbers are equal, and no answer repeats what is
// known.
//
// Shows: operator 10 | a run with nothing new makes one request to an origin, with or without a
// credential
func TestAnIdleRunAsksItsOriginOnce(t *testing.T) {
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	app := map[string]string{"githubAppID": "1", "githubInstallID": "2", "githubPrivateKey": string(pem.EncodeToMemory(
		&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))}
	token := map[string]string{"token": "t0ken"}
	tags := []string{"GET api.github.com/repos/acme/vpc/tags 304"}
	list := []string{"GET registry.opentofu.org/.well-known/terraform.json 304", "GET registry.opentofu.org/m/acme/vpc/aws/versions 304"}
	for _, c := range []struct {
		name, source, host string
		secret             map[string]string
		want               []string
	}{
		{"GitHub", "github.com/acme/vpc", "", nil, tags},
		{"GitHub with a token", "github.com/acme/vpc", "github.com", token, tags},
		{"GitHub with an App", "github.com/acme/vpc", "github.com", app, tags},
		{"a registry", "registry.opentofu.org/acme/vpc/aws", "", nil, list},
		{"a registry with a token", "registry.opentofu.org/acme/vpc/aws", "registry.opentofu.org", token, list},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**"})
			f := &closed{forge: newForge(t)}
			if c.secret != nil {
				f.token = "t0ken"
				s.secret(c.host, c.secret)
			}
			s.out.close(ocitest.Act(f.answer))
			s.start()
			m := s.module(s.ns, "m", func(m *v1alpha1.Module) {
				m.Spec.Source, m.Spec.Versions = c.source, "1.0.0"
				if c.secret != nil {
					m.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "forge"}}
				}
			})
			s.says(m, true, v1alpha1.ReasonSynced)
			f.take()
			for range 2 {
				s.again(m)
				if got := f.take(); !slices.Equal(got, c.want) {
					t.Errorf("an idle run asks\n%s", strings.Join(got, "\n"))
				}
			}
		})
	}
}

// module serves the module protocol, with trees on GitHub.
func (f *forge) module(w http.ResponseWriter, parts []string) bool {
	switch {
	case len(parts) == 5 && parts[0] == "m" && parts[4] == "versions":
		var versions []any
		for _, v := range offered() {
			versions = append(versions, map[string]string{"version": v})
		}
		f.json(w, map[string]any{"modules": []any{map[string]any{"versions": versions}}})
	case len(parts) == 6 && parts[0] == "m" && parts[5] == "download":
		w.Header().Set("X-Terraform-Get", fmt.Sprintf("https://codeload.github.com/%s//*?archive=tar.gz&X-Amz-Signature=%d", parts[4], f.links.Add(1)))
		w.WriteHeader(http.StatusNoContent)
	default:
		return false
	}
	return true
}
