// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/v1/empty"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// TestRefusals: crane shows refusals of the own registry, in a registry's form.
func TestRefusals(t *testing.T) {
	built := must.Get(embedded.New(t.TempDir(), embedded.Options{}))(t)
	client := must.Get(oci.New(serve(t, built), oci.Options{PlainHTTP: true}))(t)
	const token = "oks_net_0123456789abcdefghij"
	id, hash := must.GetBoth(statictoken.Hash(token))(t)
	var scopes []rights.Scope
	for _, text := range []string{"publish:module:net/**", "read:module:**"} {
		scope := must.Get(rights.ParseScope(text))(t)
		scopes = append(scopes, scope)
	}
	front := must.Get(server.New(server.Options{
		Options:  registry.Options{Client: client, Layout: addr.Layout{}},
		Access:   access.Policy{Tokens: []statictoken.Token{{ID: id, Hash: hash, Scopes: scopes}}},
		Keys:     []keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}},
		Embedded: built,
	}))(t)
	host := serve(t, front)
	user := crane.WithAuth(&authn.Basic{Username: "x", Password: token})
	for _, tt := range []struct {
		name string
		do   func() error
		want string
	}{
		{"nobody", func() error { _, err := crane.ListTags(host + "/modules/net/vpc/aws"); return err }, "UNAUTHORIZED: token required"},
		{"wrong token", func() error {
			_, err := crane.ListTags(host+"/modules/net/vpc/aws", crane.WithAuth(&authn.Bearer{Token: "no"}))
			return err
		}, "UNAUTHORIZED: the token is not valid"},
		{"another namespace", func() error { return crane.Push(empty.Image, host+"/modules/other/vpc/aws:1.0.0", user) }, "DENIED: this token may not publish module other/vpc/aws"},
		{"all repositories, without a token", func() error { _, err := crane.Catalog(host); return err }, "UNAUTHORIZED: token required"},
		{"no module", func() error { _, err := crane.Manifest(host+"/modules/net/none/aws:1.0.0", user); return err }, "_UNKNOWN: "},
	} {
		if err := tt.do(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in it", tt.name, err, tt.want)
		}
	}
}
