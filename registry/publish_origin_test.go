// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// issuers answers for issuers with public host names.
type issuers struct{ key *ecdsa.PrivateKey }

func (i issuers) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Type", "application/json")
	base := "https://" + r.URL.Host
	var doc any = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}}
	if strings.HasSuffix(r.URL.Path, "/openid-configuration") {
		doc = map[string]string{"issuer": base, "jwks_uri": base + "/keys", "authorization_endpoint": base, "token_endpoint": base}
	}
	_ = json.NewEncoder(rec).Encode(doc) // writes to memory
	return rec.Result(), nil
}

// TestPublishOrigin records the source that a CI token proves.
func TestPublishOrigin(t *testing.T) {
	const github, gitlab = "https://token.actions.githubusercontent.com", "https://gitlab.example.com"
	ci := issuers{must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	f := newFront(t, func(o *server.Options) {
		o.Transport = ci
		allow := []rights.Scope{must.Fixed(rights.ParseScope("publish:*:**"))}
		o.Access = access.Policy{
			Tokens: []statictoken.Token{newToken(t, publisherToken, "publish:*:**")},
			Rules:  []access.Rule{{Name: "all", Allow: allow}},
		}
		for _, url := range []string{github, gitlab} {
			o.Access.Issuers = append(o.Access.Issuers, access.Issuer{URL: url, Audiences: []string{"okara"}})
		}
	})
	jwt := func(issuer string, claims map[string]any) string {
		claims["iss"], claims["aud"], claims["exp"] = issuer, "okara", time.Now().Add(time.Minute).Unix()
		return sign(jose.ES256, ci.key, "k", claims)
	}
	const said = "?source=https://said.example.com&revision=said&ref=said&created=2026-01-02T03:04:05Z"
	for _, tt := range []struct {
		name, token           string
		source, revision, ref string
	}{
		{"static", publisherToken, "https://said.example.com", "said", "said"},
		{"github-tag", jwt(github, map[string]any{"sub": "repo:acme/vpc:ref:refs/tags/v1.0.0", "repository": "acme/vpc", "sha": "abc", "ref": "refs/tags/v1.0.0"}), "https://github.com/acme/vpc", "abc", "v1.0.0"},
		{"github-branch", jwt(github, map[string]any{"sub": "repo:acme/vpc:ref:refs/heads/main", "repository": "acme/vpc", "sha": "abc", "ref": "refs/heads/main"}), "https://github.com/acme/vpc", "abc", "main"},
		{"gitlab", jwt(gitlab, map[string]any{"sub": "project_path:acme/vpc:ref_type:tag:ref:v1.0.0", "project_path": "acme/vpc", "sha": "abc", "ref": "v1.0.0"}), gitlab + "/acme/vpc", "abc", "v1.0.0"},
		{"person", jwt(gitlab, map[string]any{"sub": "somebody"}), "https://said.example.com", "said", "said"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := f.send(t, http.MethodPut, "/v1/modules/acme/"+tt.name+"/aws/1.0.0"+said, tt.token, depottest.ZipOf(t, map[string]string{"main.tf": ""}))
			if status != http.StatusCreated {
				t.Fatalf("%d %s", status, body)
			}
			m := must.Fixed(f.repo(t, f.layout.Prefix+"/modules/acme/"+tt.name+"/aws").Fetch(t.Context(), "1.0.0"))
			image := must.Fixed(m.Image())
			got := map[string]string{}
			for _, key := range []string{artifact.AnnSource, artifact.AnnRevision, artifact.AnnSourceRef, artifact.AnnCreated} {
				got[key] = image.Annotations[key]
			}
			want := map[string]string{artifact.AnnSource: tt.source, artifact.AnnRevision: tt.revision, artifact.AnnSourceRef: tt.ref, artifact.AnnCreated: "2026-01-02T03:04:05Z"}
			must.Match(t, "value", got, want)
			_, body = f.send(t, http.MethodGet, "/v1/modules/acme/"+tt.name+"/aws/versions", publisherToken, nil)
			list := decode[struct {
				Modules []struct {
					Source   string
					Versions []struct {
						PublishedAt time.Time `json:"published_at"`
					}
				}
			}](t, body).Modules[0]
			if list.Source != tt.source || time.Since(list.Versions[0].PublishedAt).Abs() > time.Minute {
				t.Errorf("versions: %s", body)
			}
			_, body = f.send(t, http.MethodGet, "/v1/modules/acme/"+tt.name+"/aws/1.0.0", publisherToken, nil)
			if at := decode[struct {
				PublishedAt time.Time `json:"published_at"`
			}](t, body).PublishedAt; !at.Equal(list.Versions[0].PublishedAt.Truncate(time.Second)) {
				t.Errorf("published at %s, the list says %s", at, list.Versions[0].PublishedAt)
			}
		})
	}
}

// TestSourceLater: a source missing now is in the next answer.
func TestSourceLater(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	archive := depottest.ZipOf(t, map[string]string{"main.tf": ""})
	if status, body := newFrontAt(t, host, nil, nil).send(t, http.MethodPut, "/v1/modules/net/vpc/aws/1.0.0?source=https://git.example.com/x", "", archive); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	broken := &ocitest.Fault{Match: ocitest.OnTag(http.MethodGet), Times: 4, Do: ocitest.Status(http.StatusBadGateway, 0)}
	f := newFrontAt(t, host, broken, nil)
	for _, want := range []string{"", "https://git.example.com/x"} {
		status, body := f.send(t, http.MethodGet, "/v1/modules/net/vpc/aws/versions", "", nil)
		got := decode[struct {
			Modules []struct {
				Source   string
				Versions []struct{ Version string }
			}
		}](t, body).Modules[0]
		if status != http.StatusOK || got.Source != want || len(got.Versions) != 1 {
			t.Errorf("%d %s, want the source %q", status, body, want)
		}
	}
}
