// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// event writes a status event with a distinct time.
func (f *front) event(t testing.TB, repository string, at time.Time, e evidence.StatusEvent, blobs ...oci.Blob) {
	t.Helper()
	e.Time = at
	must.Fixed(evidence.PutStatusEvent(t.Context(), f.repo(t, repository), e, blobs...))
}

// TestStatus deprecates, withdraws and reverts both, and checks every route.
func TestStatus(t *testing.T) {
	clock := newClock()
	f := newFront(t, func(o *server.Options) { o.Now = clock.now })
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		f.module(t, "net/vpc/aws", v, map[string]string{"main.tf": ""})
		f.provider(t, release{address: "acme/dns", version: v})
		f.provider(t, release{address: "registry.opentofu.org/hashicorp/time", version: v})
	}
	c := &tofutest.Client{Tool: tofutest.OpenTofu()}
	s := f.services(t, c)
	const module, provider, mirror = "acme/modules/net/vpc/aws", "acme/providers/acme/dns", "acme/mirror/registry.opentofu.org/hashicorp/time"
	later := func() { clock.add(10 * time.Minute) } // the lists are read again
	look := func(t *testing.T, want []string, warnings []string) {
		t.Helper()
		modules := must.Fixed(c.ModuleVersions(t.Context(), s.Modules, "net/vpc/aws"))
		own := must.Fixed(c.ProviderVersions(t.Context(), s.Providers, "acme/dns"))
		mirrored := must.Fixed(c.MirrorVersions(t.Context(), f.url(t, "/mirror/"), "registry.opentofu.org/hashicorp/time"))
		for name, got := range map[string][]string{"modules": modules, "providers": own.List(), "mirror": reversed(mirrored)} {
			must.Match(t, name, got, want)
		}
		must.Match(t, "warnings", own.Warnings, warnings)
	}
	var skipped time.Duration // events of the future have no effect
	everywhere := func(e evidence.StatusEvent) {
		for _, r := range []string{module, provider, mirror} {
			f.event(t, r, clock.now().Add(-skipped), e)
		}
		later()
	}
	look(t, []string{"1.2.0", "1.1.0", "1.0.0"}, nil)

	for _, v := range []string{"1.0.0", "1.1.0"} {
		everywhere(evidence.StatusEvent{Action: evidence.ActionDeprecate, Version: v, Message: "old", Replacement: "1.2.0"})
	}
	look(t, []string{"1.2.0", "1.1.0", "1.0.0"}, []string{"1.1.0, 1.0.0 are deprecated: old; use 1.2.0"})

	everywhere(evidence.StatusEvent{Action: evidence.ActionYank, Version: "1.2.0", Message: "leaks"})
	look(t, []string{"1.1.0", "1.0.0"}, []string{"1.1.0, 1.0.0 are deprecated: old; use 1.2.0", "1.2.0 is withdrawn: leaks"})
	for _, path := range []string{
		"/v1/modules/net/vpc/aws/1.2.0/download", "/v1/providers/acme/dns/1.2.0/download/linux/amd64",
		"/mirror/registry.opentofu.org/hashicorp/time/1.2.0.json",
	} {
		resp, body := ask(t, http.MethodGet, f.url(t, path))
		if resp.StatusCode != 404 || !strings.Contains(string(body), "leaks") {
			t.Errorf("%s: %d %s, want 404 with the reason", path, resp.StatusCode, body)
		}
	}

	everywhere(evidence.StatusEvent{Action: evidence.ActionUndeprecate, Version: evidence.AllVersions})
	skipped = 91 * 24 * time.Hour
	clock.add(skipped) // what was done to each version is taken back for each
	look(t, []string{"1.1.0", "1.0.0"}, []string{"1.1.0, 1.0.0 are deprecated: old; use 1.2.0"})
	for _, v := range []string{"1.0.0", "1.1.0"} {
		everywhere(evidence.StatusEvent{Action: evidence.ActionUndeprecate, Version: v})
	}
	look(t, []string{"1.1.0", "1.0.0"}, nil)

	everywhere(evidence.StatusEvent{Action: evidence.ActionUnyank, Version: "1.2.0"})
	look(t, []string{"1.2.0", "1.1.0", "1.0.0"}, nil)

	everywhere(evidence.StatusEvent{Action: evidence.ActionYank, Version: evidence.AllVersions})
	if got := must.Fixed(c.ModuleVersions(t.Context(), s.Modules, "net/vpc/aws")); len(got) != 0 {
		t.Errorf("all withdrawn: %v, want an empty list", got)
	}
}

func reversed(s []string) []string {
	out := make([]string, len(s))
	for i, e := range s {
		out[len(s)-1-i] = e
	}
	return out
}

// TestStatusCost: events are read once, warnings short.
func TestStatusCost(t *testing.T) {
	clock := newClock()
	f := newFront(t, func(o *server.Options) { o.Now = clock.now })
	for i := range 8 {
		v := fmt.Sprintf("1.%d.0", i)
		f.provider(t, release{address: "acme/dns", version: v})
		f.event(t, "acme/providers/acme/dns", clock.now().Add(time.Duration(i)), evidence.StatusEvent{
			Action: evidence.ActionDeprecate, Version: v, Message: strings.Repeat(string(rune('a'+i)), 298) + "ä",
		})
	}
	c := &tofutest.Client{Tool: tofutest.Terraform()}
	s := f.services(t, c)
	f.count.Take()
	got := must.Fixed(c.ProviderVersions(t.Context(), s.Providers, "acme/dns"))
	if len(got.Warnings) != 6 || got.Warnings[5] != "and 3 more" {
		t.Errorf("warnings %q", got.Warnings)
	}
	for _, w := range got.Warnings {
		if len(w) > 300 {
			t.Errorf("a warning of %d bytes", len(w))
		}
	}
	must.Match(t, "cold", f.count.Take(), map[string]int{"GET tags": 1, "GET manifest": 8})
	clock.add(10 * time.Minute)
	must.Fixed(c.ProviderVersions(t.Context(), s.Providers, "acme/dns"))
	must.Match(t, "refreshed", f.count.Take(), map[string]int{"GET tags": 1})
}

// TestTofuKeys: keys in each state with both clients and tools, which take one that expired since.
//
// Shows: registries 7 | keys that are unreadable, foreign, expired, revoked or missing |
// boring-registry#312, #327, #377; sethbacon/terraform-registry-backend#423
func TestTofuKeys(t *testing.T) {
	other := must.Fixed(signing.NewKey(signing.KeyOptions{Name: "other", ECC: true}))
	past := func() time.Time { return time.Now().AddDate(-3, 0, 0) }
	old := must.Fixed(signing.NewKey(signing.KeyOptions{Name: "old", ECC: true, Now: past}))
	gone := must.Fixed(signing.NewKey(signing.KeyOptions{Name: "gone", ECC: true}))
	before := must.Fixed(signing.ParseKey(must.Fixed(gone.Armor(nil)), nil))
	byGone := func(sums []byte) []byte { return must.Fixed(before.Sign(sums, time.Now())) }
	must.Succeed(t, gone.Revoke(time.Now().Add(-time.Minute), "stolen"))
	key := func(k *signing.Key) artifact.SigningKey { return servedKey(must.Fixed(k.Public())) }
	own, foreign, expired, revoked := key(testSigner()), key(other), key(old), key(gone)
	garbage := artifact.SigningKey{KeyID: "0123456789ABCDEF", ASCIIArmor: "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n"}
	joined := artifact.SigningKey{KeyID: foreign.KeyID, ASCIIArmor: foreign.ASCIIArmor + own.ASCIIArmor}
	tests := []struct {
		name string
		rel  release
		ok   bool
	}{
		{"its key", release{keys: []artifact.SigningKey{own}}, true},
		{"foreign key first", release{keys: []artifact.SigningKey{foreign, own}}, true},
		{"two keys in one entry", release{keys: []artifact.SigningKey{joined}}, true},
		{"expired key beside", release{keys: []artifact.SigningKey{expired, own}}, true},
		{"revoked key beside", release{keys: []artifact.SigningKey{revoked, own}}, true},
		{"unreadable key beside", release{keys: []artifact.SigningKey{garbage, own}}, true},
		{"signed by an expired key", release{keys: []artifact.SigningKey{expired}, sign: func(sums []byte) []byte { return must.Fixed(old.Sign(sums, past())) }}, true},
		{"signed by a revoked key", release{keys: []artifact.SigningKey{revoked}, sign: byGone}, false},
		{"foreign key only", release{keys: []artifact.SigningKey{foreign}}, false},
		{"unreadable key only", release{keys: []artifact.SigningKey{garbage}}, false},
		{"signature of other sums", release{keys: []artifact.SigningKey{own}, sign: func([]byte) []byte { return must.Fixed(testSigner().Sign([]byte("x"), time.Now())) }}, false},
		{"garbage for a signature", release{keys: []artifact.SigningKey{own}, sign: func([]byte) []byte { return []byte("garbage") }}, false},
		{"no signature", release{unsigned: true}, false},
	}
	f := newFront(t, nil)
	for i, tt := range tests {
		tt.rel.address, tt.rel.version, tt.rel.platforms = fmt.Sprintf("acme/dns%d", i), "1.0.0", []string{tofutest.Platform()}
		f.provider(t, tt.rel)
		t.Run(tt.name, func(t *testing.T) {
			for _, tool := range tofutest.Tools() {
				c := &tofutest.Client{Tool: tool}
				_, err := c.Provider(t.Context(), f.services(t, c).Providers, "example.com", tt.rel.address, "1.0.0", runtime.GOOS, runtime.GOARCH)
				if (err == nil) != tt.ok {
					t.Errorf("%s as we know it: %v", tool.Name, err)
				}
			}
			for _, tool := range tofutest.StockTools(t) {
				if _, out, err := tool.Init(t, tofutest.UseProvider("okara.test/"+tt.rel.address), f.hostBlock(t)); (err == nil) != tt.ok {
					t.Errorf("%s: %v\n%s", tool.Name, err, out)
				}
			}
		})
	}
}

// hostBlock is a CLI configuration in which the front-end is okara.test.
func (f *front) hostBlock(t testing.TB) string {
	s := f.services(t, &tofutest.Client{Tool: tofutest.OpenTofu()})
	return fmt.Sprintf("host \"okara.test\" {\n  services = {\n    \"modules.v1\" = %q\n    \"providers.v1\" = %q\n  }\n}\n", s.Modules, s.Providers)
}

// TestUnsigned: served from a mirror, and of registry.opentofu.org, where both tools take it.
func TestUnsigned(t *testing.T) {
	f := newFront(t, nil)
	c := &tofutest.Client{Tool: tofutest.OpenTofu()}
	for host, want := range map[string]int{"registry.opentofu.org": 200, "registry.example.com": 404} {
		rel := f.provider(t, release{address: host + "/acme/dns", version: "1.0.0", unsigned: true})
		if _, err := c.Mirror(t.Context(), f.url(t, "/mirror/"), host+"/acme/dns", "1.0.0", "linux_amd64"); err != nil {
			t.Errorf("mirror of %s: %v", host, err)
		}
		resp, body := ask(t, http.MethodGet, f.url(t, "/origin/"+host+"/v1/providers/acme/dns/1.0.0/download/linux/amd64"))
		if resp.StatusCode != want {
			t.Errorf("origin %s: %d %s, want %d", host, resp.StatusCode, body, want)
		}
		if want == 200 {
			in, err := c.Provider(t.Context(), f.url(t, "/origin/"+host+"/v1/providers/"), host, "acme/dns", "1.0.0", "linux", "amd64")
			if err != nil || string(in.Zip) != string(rel.zips["linux_amd64"]) {
				t.Errorf("install from %s: %v", host, err)
			}
		}
		versions := must.Fixed(c.ProviderVersions(t.Context(), f.url(t, "/origin/"+host+"/v1/providers/"), "acme/dns"))
		if (len(versions.List()) == 1) != (want == 200) {
			t.Errorf("versions of %s: %v", host, versions.List())
		}
	}
}

// TestResign signs an unsigned version later.
func TestResign(t *testing.T) {
	clock := newClock()
	f := newFront(t, func(o *server.Options) { o.Now = clock.now })
	rel := f.provider(t, release{address: "acme/dns", version: "1.0.0", unsigned: true})
	c := &tofutest.Client{Tool: tofutest.Terraform()}
	s := f.services(t, c)
	if _, err := c.Provider(t.Context(), s.Providers, "example.com", "acme/dns", "1.0.0", "linux", "amd64"); err == nil {
		t.Fatal("an unsigned version was installed")
	}
	sums := signing.Sums{"terraform-provider-dns_1.0.0_linux_amd64.zip": hexSum(rel.zips["linux_amd64"])}.Bytes()
	signature := oci.BytesBlob(artifact.MediaShasumsSignature, must.Fixed(testSigner().Sign(sums, clock.now())))
	keys := oci.BytesBlob(artifact.MediaSigningKeys, must.Fixed(json.Marshal(artifact.SigningKeys{Keys: []artifact.SigningKey{servedKey(must.Fixed(testSigner().Public()))}})))
	index := must.Fixed(f.repo(t, "acme/providers/acme/dns").Resolve(t.Context(), "1.0.0"))
	f.event(t, "acme/providers/acme/dns", clock.now(), evidence.StatusEvent{
		Action: evidence.ActionResign, Version: "1.0.0", Subject: index.Digest, Layers: []oci.Descriptor{signature.Descriptor, keys.Descriptor},
	}, signature, keys)
	clock.add(10 * time.Minute)
	if _, err := c.Provider(t.Context(), s.Providers, "example.com", "acme/dns", "1.0.0", "linux", "amd64"); err != nil {
		t.Error(err)
	}
}
