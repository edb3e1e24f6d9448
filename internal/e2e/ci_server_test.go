// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issuer is a CI system that gives its jobs identity tokens.
type issuer struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	claims map[string]any // of the job
	secret string         // with which the job requests its token
}

func newIssuer(t *testing.T, claims map[string]any) *issuer {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	point := must(key.PublicKey.Bytes())(t)
	i := &issuer{key: key, claims: claims, secret: "the-secret-of-the-runner"}
	mux := http.NewServeMux()
	answer := func(pattern string, v func(r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v(r)) // a truncated answer fails the test
		})
	}
	answer("GET /.well-known/openid-configuration", func(*http.Request) any {
		return map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token"}
	})
	answer("GET /keys", func(*http.Request) any {
		return map[string]any{"keys": []map[string]string{{
			"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "k", "x": encode(point[1:33]), "y": encode(point[33:]),
		}}}
	})
	answer("GET /idtoken", func(r *http.Request) any {
		if r.Header.Get("Authorization") != "Bearer "+i.secret {
			return map[string]string{"message": "who are you"}
		}
		return map[string]string{"value": i.token(t, r.URL.Query().Get("audience"))}
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) { // the user consents
		q := r.URL.Query()
		i.claims["nonce"] = q.Get("nonce")
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"c"}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	answer("POST /token", func(r *http.Request) any {
		return map[string]string{"id_token": i.token(t, r.PostFormValue("client_id")), "token_type": "Bearer", "access_token": "unused"}
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// token returns a JWT, signed with ES256 (RFC 7518, section 3.4).
func (i *issuer) token(t *testing.T, audience string) string {
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "aud": audience, "sub": "job", "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(5 * time.Minute).Unix()}
	maps.Copy(claims, i.claims)
	body, err := json.Marshal(claims)
	if err != nil {
		t.Error(err)
	}
	text := encode([]byte(`{"alg":"ES256","kid":"k","typ":"JWT"}`)) + "." + encode(body)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		t.Error(err)
		return ""
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + encode(signature)
}

// server runs docs/publish/ci-server.md's jobs; only the server knows the registry.
func (c *ciJob) server(t *testing.T, page, publishGitHub, publishGitLab string) {
	t.Helper()
	job := map[string]any{"ref_type": "tag", "ref_protected": "true", "sha": strings.Repeat("5", 40), "ref": "v1.2.6"}
	github, gitlab := newIssuer(t, maps.Clone(job)), newIssuer(t, maps.Clone(job))
	github.claims["repository"], gitlab.claims["project_path"] = "acme/terraform-aws-vpc", "acme/terraform-aws-vpc"
	var to string
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: to})
	}})
	defer front.Close()
	config := filepath.Join(c.dir, "okara.hcl")
	for _, b := range block.FindAllStringSubmatch(page, -1) {
		if b[2] != filepath.Base(config) {
			continue
		}
		text := strings.NewReplacer("https://token.actions.githubusercontent.com", github.URL, "https://gitlab.com", gitlab.URL, "https://okara.example.com", front.URL).Replace(b[3])
		succeed(t, os.WriteFile(config, []byte(text), 0o600))
	}
	serve := exec.Command(c.set.okara, "serve", "--listen", "127.0.0.1:0", "--registry", c.registry, "--storage", filepath.Join(c.dir, "serve"), "--config", config)
	server, addr := mustBoth(start(serve))(t)
	defer server.kill()
	to = addr
	c.run(t, publishGitHub, "OKARA_REGISTRY=", "OKARA_SERVER="+front.URL, "GITHUB_REF_NAME=v1.2.5",
		"ACTIONS_ID_TOKEN_REQUEST_URL="+github.URL+"/idtoken?api-version=2.0", "ACTIONS_ID_TOKEN_REQUEST_TOKEN="+github.secret)
	c.run(t, publishGitLab, "OKARA_REGISTRY=", "OKARA_SERVER="+front.URL, "CI_COMMIT_TAG=v1.2.6", "OKARA_TOKEN="+gitlab.token(t, front.URL),
		"CI_PROJECT_URL=https://example.com/what/the/job/says")
	c.run(t, "okara list acme/vpc/aws | grep 1.2.5\nokara show acme/vpc/aws@1.2.6 --json | grep "+gitlab.URL+"/acme/terraform-aws-vpc\n")
}
