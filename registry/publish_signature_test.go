// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestPublishSignature: only signatures about the version are stored.
func TestPublishSignature(t *testing.T) {
	f := newFront(t, func(o *server.Options) {
		private(t)(o)
		o.Access.Tokens = append(o.Access.Tokens, newToken(t, "oks_all_0123456789abcdefghij", "publish:*:**"))
	})
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	key := must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	const module, provider, all = "/v1/modules/net/vpc/aws/1.0.0/signatures", "/v1/providers/acme/dns/1.0.0/signatures", "oks_all_0123456789abcdefghij"
	type listing struct {
		Repository string
		Digest     digest.Digest
		Signatures []evidence.CosignSignature
	}
	list := func(path string) listing {
		status, body := f.send(t, http.MethodGet, path, all, nil)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, body)
		}
		return decode[listing](t, body)
	}
	m, p := list(module), list(provider)
	request := func(repository string, subject, about digest.Digest) []byte {
		payload := must.Fixed(evidence.CosignPayload(repository, about))
		return must.Fixed(json.Marshal(map[string]any{"digest": subject, "payload": payload, "signature": must.Fixed(signing.SignECDSA(key, payload))}))
	}
	good, long := request(m.Repository, m.Digest, m.Digest), strings.Repeat("QUFB", 50_000)
	for _, tt := range []struct {
		name, path, token string
		body              []byte
		want              int
	}{
		{"reader", module, readerToken, good, 403},
		{"no token", module, "", good, 401},
		{"no such version", "/v1/modules/net/vpc/aws/9.0.0/signatures", all, good, 404},
		{"no JSON", module, all, []byte("x"), 422},
		{"nothing", module, all, []byte(`{}`), 422},
		{"no signature", module, all, []byte(`{"payload":"e30="}`), 422},
		{"long payload", module, all, []byte(`{"payload":"` + long + `"}`), 413},
		{"no payload of cosign", module, all, must.Fixed(json.Marshal(map[string]any{"digest": m.Digest, "payload": []byte("{}"), "signature": []byte("x")})), 422},
		{"other version", module, all, request(m.Repository, p.Digest, p.Digest), 409},
		{"about another version", module, all, request(m.Repository, m.Digest, p.Digest), 422},
		{"about another repository", module, all, request(p.Repository, m.Digest, m.Digest), 422},
		{"module", module, all, good, 201},
		{"again", module, all, good, 200},
		{"provider", provider, all, request(p.Repository, p.Digest, p.Digest), 201},
	} {
		if status, body := f.send(t, http.MethodPost, tt.path, tt.token, tt.body); status != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, status, body, tt.want)
		}
	}
	must.Equal(t, "signatures of the module", len(list(module).Signatures), 1)
	d := depot.New(depot.Options{Client: f.client, Layout: f.layout})
	v, o := must.Fixed(addr.ParseVersion("1.0.0")), trust.Policy{Require: []string{trust.RequireCosign}}
	o.Cosign = append(o.Cosign, &key.PublicKey)
	if checks, err := d.Verify(t.Context(), must.Fixed(addr.ParseItem("acme/dns")), v, o); err != nil {
		t.Errorf("verify: %v, %v", checks, err)
	}
}
