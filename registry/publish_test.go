// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// send sends a request with a body as the publisher.
func (f *front) send(t testing.TB, method, path, token string, body []byte, header ...string) (int, []byte) {
	t.Helper()
	r := must.Fixed(http.NewRequestWithContext(t.Context(), method, f.URL+path, bytes.NewReader(body)))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp := must.Fixed(http.DefaultClient.Do(r))
	defer resp.Body.Close()
	return resp.StatusCode, must.Fixed(io.ReadAll(resp.Body))
}

func contentDigest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// TestPublishModuleRequests: as many as a direct publication, fewer once the catalog knows it.
func TestPublishModuleRequests(t *testing.T) {
	f := newFront(t, private(t))
	for n, most := range []int{20, 12, 12} {
		version := fmt.Sprintf("1.%d.0", n)
		body := depottest.ZipOf(t, map[string]string{"main.tf": "# " + version + "\n"})
		f.count.Take()
		status, answer := f.send(t, http.MethodPut, "/v1/modules/net/vpc/aws/"+version, publisherToken, body, "Content-Type", "application/zip")
		if status != http.StatusCreated && status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		if got := f.count.Total(); got > most {
			t.Errorf("version %s took %d requests, at most %d: %v", version, got, most, f.count.Take())
		}
	}
}

// TestPublishModule sends archives as a CI system would and installs the
// versions immediately.
//
// Shows: mistakes 2
func TestPublishModule(t *testing.T) {
	f := newFront(t, private(t))
	files := map[string]string{"main.tf": "output \"x\" { value = 1 }\n", "sub/x.tf": "", ".terraform/secret": "x"}
	good := depottest.ZipOf(t, files)
	other := depottest.ZipOf(t, map[string]string{"main.tf": "output \"x\" { value = 2 }\n"})
	const path = "/v1/modules/net/vpc/aws/1.0.0"
	tests := []struct {
		name, path, token string
		body              []byte
		header            []string
		want              int
		text              string // in the answer
	}{
		{name: "no token", path: path, body: good, want: 401},
		{name: "reader", path: path, token: readerToken, body: good, want: 403},
		{name: "elsewhere", path: "/v1/modules/acme/vpc/aws/1.0.0", token: publisherToken, body: good, want: 403},
		{name: "no archive", path: path, token: publisherToken, body: []byte("hello, world"), want: 422, text: "is not a complete zip, tar, tar.gz"},
		{name: "no module", path: path, token: publisherToken, body: depottest.ZipOf(t, map[string]string{"README.md": ""}), want: 422, text: ".tf"},
		{name: "path out of the archive", path: path, token: publisherToken, body: depottest.ZipOf(t, map[string]string{"../main.tf": ""}), want: 422},
		{name: "deep HCL", path: path + "?dry_run=true", token: publisherToken, body: depottest.ZipOf(t, map[string]string{"main.tf": "x = " + strings.Repeat("(", 500_000)}), want: 422, text: "main.tf:1: nested more than 1000 deep"},
		{name: "deep JSON", path: path, token: publisherToken, body: depottest.ZipOf(t, map[string]string{"main.tf.json": strings.Repeat("[", 9000) + strings.Repeat("]", 9000)}), want: 422, text: "main.tf.json:1: nested more than 1000 deep"},
		{name: "broken", path: path, token: publisherToken, body: depottest.ZipOf(t, map[string]string{"main.tf": "\nresorce \"a\" \"b\" {}\n"}), want: 422, text: "main.tf:2:1: Unsupported block type"},
		{name: "broken, dry run", path: path + "?dry_run=true", token: publisherToken, body: depottest.ZipOf(t, map[string]string{"main.tf": "output \"a\" {\n value = var.b\n}\n"}), want: 422, text: "main.tf:2:10: "},
		{name: "broken and allowed", path: path + "?dry_run=true&allow_invalid=true", token: publisherToken, body: depottest.ZipOf(t, map[string]string{"main.tf": "a {\n"}), want: 200},
		{name: "not exact", path: "/v1/modules/net/vpc/aws/1.0", token: publisherToken, body: good, want: 422},
		{name: "not storable", path: "/v1/modules/net/Vpc/aws/1.0.0", token: publisherToken, body: good, want: 403},
		{name: "other digest", path: path, token: publisherToken, body: good, header: []string{"Content-Digest", contentDigest(other)}, want: 400},
		{name: "dry run", path: path + "?dry_run=1", token: publisherToken, body: good, want: 200, text: `{"path":"main.tf","size":25}`},
		{name: "new", path: path, token: publisherToken, body: good, header: []string{"Content-Digest", contentDigest(good)}, want: 201, text: `"tag":"1.0.0"`},
		{name: "same again", path: path, token: publisherToken, body: good, want: 200, text: `"tag":"1.0.0"`},
		{name: "other content", path: path, token: publisherToken, body: other, want: 409, text: "1.0.1"},
		{name: "dry run of a conflict", path: path + "?dry_run=1", token: publisherToken, body: depottest.ZipOf(t, map[string]string{"main.tf": "# other\n"}), want: 409, text: "1.0.1"},
		{name: "misspelt query", path: path + "?dry_run=yes", token: publisherToken, body: good, want: 422, text: "true or false"},
		{name: "no such policy", path: path + "?policy=replace", token: publisherToken, body: good, want: 422},
		{name: "directory outside", path: path + "?dir=../x", token: publisherToken, body: good, want: 422},
		{name: "no such directory", path: path + "?dir=x", token: publisherToken, body: good, want: 422, text: ".tf"},
		{name: "no time", path: path + "?created=today", token: publisherToken, body: good, want: 422},
		{name: "in a directory", path: path + "?dir=sub&dry_run=true", token: publisherToken, body: good, want: 200, text: `"sub/x.tf"`},
		{name: "packed already", path: strings.Replace(path, "1.0.0", "1.0.9", 1) + "?packed=true&dry_run=true", token: publisherToken, body: good, want: 200, text: ".terraform/secret"},
		{name: "edition", path: path + "?policy=editions", token: publisherToken, body: other, want: 201},
		{name: "edition taken back", path: path + "?policy=editions", token: publisherToken, body: good, want: 201},
		{name: "compressed a hundredfold", path: "/v1/modules/net/vpc/aws/1.2.0", token: publisherToken, body: depottest.ZipOf(t, map[string]string{"main.tf": "", "rules.json": strings.Repeat(`{"region":"a"},`, 200_000)}), want: 201},
		{name: "next version", path: "/v1/modules/net/vpc/aws/1.1.0", token: publisherToken, body: other, want: 201},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "not storable" {
				tt.path, tt.want = "/v1/modules/net/v_-c/aws/1.0.0", 422
			}
			status, body := f.send(t, http.MethodPut, tt.path, tt.token, tt.body, tt.header...)
			if status != tt.want || !strings.Contains(string(body), tt.text) {
				t.Errorf("%d %s, want %d with %q", status, body, tt.want, tt.text)
			}
			if tt.want >= 400 && !strings.Contains(string(body), `"errors"`) {
				t.Errorf("no reason in %s", body)
			}
		})
	}
	c := &tofutest.Client{Tool: tofutest.Terraform(), Token: readerToken}
	s := f.services(t, c)
	got := must.Fixed(c.ModuleVersions(t.Context(), s.Modules, "net/vpc/aws"))
	if len(got) < 3 || got[0] != "1.2.0" || got[1] != "1.1.0" || !slices.Contains(got, "1.0.0") {
		t.Errorf("versions %v, want 1.2.0, 1.1.0 and 1.0.0", got)
	}
	shipped := must.Fixed(c.Module(t.Context(), s.Modules, "net/vpc/aws", "1.0.0"))
	if shipped["main.tf"] != files["main.tf"] || len(shipped) != 2 {
		t.Errorf("shipped %v, want what no ignore rule drops", shipped)
	}
}

// TestPublishTooLarge is refused before a byte is sent.
func TestPublishTooLarge(t *testing.T) {
	f := newFront(t, private(t))
	read := errors.New("the body was read")
	r := must.Fixed(http.NewRequestWithContext(t.Context(), http.MethodPut, f.URL+"/v1/modules/net/vpc/aws/1.0.0", iotest.ErrReader(read)))
	r.ContentLength = 512<<20 + 1
	r.Header.Set("Authorization", "Bearer "+publisherToken)
	r.Header.Set("Expect", "100-continue")
	transport := &http.Transport{ExpectContinueTimeout: time.Hour}
	defer transport.CloseIdleConnections()
	resp := must.Fixed(transport.RoundTrip(r))
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%s, want 413", resp.Status)
	}
}

// TestPublishProvider uploads to two replicas, and installs.
func TestPublishProvider(t *testing.T) {
	f := newFront(t, func(o *server.Options) {
		o.Access.Anonymous = rights.AnonymousRead()
		o.Access.Tokens = []statictoken.Token{newToken(t, publisherToken, "publish:provider:acme/*")}
	})
	replica := newFrontAt(t, f.client.Host(), nil, func(o *server.Options) {
		o.Access.Tokens = []statictoken.Token{newToken(t, publisherToken, "publish:provider:acme/*")}
	})
	const base = "/v1/providers/acme/dns/1.0.0"
	archive := depottest.ZipOf(t, map[string]string{"terraform-provider-dns_v1.0.0": "binary"})
	const name = "terraform-provider-dns_1.0.0_linux_amd64.zip"
	sums := signing.Sums{name: hexSum(archive)}.Bytes()
	signature := must.Fixed(testSigner().Sign(sums, time.Now()))
	var receipts []string
	for i, file := range []struct {
		name string
		body []byte
	}{{name, archive}, {"terraform-provider-dns_1.0.0_SHA256SUMS", sums}, {"terraform-provider-dns_1.0.0_SHA256SUMS.sig", signature}} {
		at := f
		if i == 1 {
			at = replica
		}
		status, body := at.send(t, http.MethodPut, base+"/files/"+file.name, publisherToken, file.body)
		if status != http.StatusCreated {
			t.Fatalf("%s: %d %s", file.name, status, body)
		}
		receipts = append(receipts, decode[struct{ Receipt string }](t, body).Receipt)
	}
	key := must.Fixed(testSigner().Public()).Armor
	request := func(receipts []string, keys ...string) []byte {
		return must.Fixed(json.Marshal(map[string]any{"receipts": receipts, "keys": keys}))
	}
	found := func() bool {
		_, body := f.send(t, http.MethodGet, "/api/v1/search?q=dns", publisherToken, nil)
		return bytes.Contains(body, []byte(`"acme/dns"`))
	}
	if found() { // which reads the list of the catalog
		t.Error("it is found before it is published")
	}
	foreign := append([]string(nil), receipts...)
	foreign[0] += "x"
	for _, tt := range []struct {
		name, path string
		body       []byte
		want       int
	}{
		{"no key", base, request(receipts), 422},
		{"garbage key", base, request(receipts, "garbage"), 422},
		{"no signature", base, request(receipts[:2], key), 422},
		{"forged receipt", base, request(foreign, key), 422},
		{"receipt of another provider", "/v1/providers/acme/other/1.0.0", request(receipts, key), 422},
		{"other version than in the names", "/v1/providers/acme/dns/2.0.0", request(receipts, key), 422},
		{"no right", "/v1/providers/evil/dns/1.0.0", request(receipts, key), 403},
		{"no JSON", base, []byte("x"), 422},
		{"two receipts for a package", base, request(append(receipts[:3:3], receipts[0]), key), 422},
		{"two receipts for SHA256SUMS", base, request(append(receipts[:3:3], receipts[1]), key), 422},
		{"good", base, request(receipts, key), 201},
		{"again", base, request(receipts, key), 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.count.Take()
			if status, body := f.send(t, http.MethodPost, tt.path, publisherToken, tt.body); status != tt.want {
				t.Errorf("%d %s, want %d", status, body, tt.want)
			}
			// Publishing is a short request for packages of any size.
			if n := f.count.Take()["GET blob"]; n > 2 {
				t.Errorf("%d blobs were read, want SHA256SUMS and its signature only", n)
			}
		})
	}
	if !found() {
		t.Error("what this server publishes is found at once")
	}
	known := func(path, token, digest string) (int, []byte) {
		return f.send(t, http.MethodPost, path, token, fmt.Appendf(nil, `{"digest":%q}`, digest))
	}
	for _, tt := range []struct {
		name, path, token, digest string
		want                      int
	}{
		{"known", base + "/files/" + name, publisherToken, "sha256:" + hexSum(archive), 200},
		{"in other letters", "/v1/providers/ACME/dns/1.0.0/files/" + name, publisherToken, "sha256:" + hexSum(archive), 200}, // the right is asked for what is stored
		{"unknown", base + "/files/" + name, publisherToken, "sha256:" + hexSum([]byte("x")), 404},
		{"no digest", base + "/files/" + name, publisherToken, "../x", 404},
		{"name of another", "/v1/providers/acme/other/1.0.0/files/" + name, publisherToken, "sha256:" + hexSum(archive), 422},
		{"in another repository", "/v1/providers/acme/other/1.0.0/files/" + strings.Replace(name, "dns", "other", 1), publisherToken, "sha256:" + hexSum(archive), 404},
		{"no right", "/v1/providers/evil/dns/1.0.0/files/" + name, publisherToken, "sha256:" + hexSum(archive), 403},
		{"reader", base + "/files/" + name, "", "sha256:" + hexSum(archive), 401},
	} {
		if status, body := known(tt.path, tt.token, tt.digest); status != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, status, body, tt.want)
		}
	}
	_, body := known(base+"/files/"+name, publisherToken, "sha256:"+hexSum(archive))
	receipts[0] = decode[struct{ Receipt string }](t, body).Receipt
	if status, body := f.send(t, http.MethodPost, base, publisherToken, request(receipts, key)); status != 200 {
		t.Errorf("with the receipt of a known file: %d %s, want 200", status, body)
	}
	if status, body := f.send(t, http.MethodPut, base+"/files/"+name, publisherToken, sums); status != 422 || !strings.Contains(string(body), "not a zip") {
		t.Errorf("no package: %d %s, want 422", status, body)
	}
	for _, bad := range []string{"x.zip", "terraform-provider-dns%2Fx", "evil"} {
		if status, body := f.send(t, http.MethodPut, base+"/files/"+bad, publisherToken, archive); status != 422 {
			t.Errorf("file %s: %d %s, want 422", bad, status, body)
		}
	}
	tofutest.RunProviders(t, f.target(), "/v1/providers/", tofutest.Provider{
		Host: "example.com", Address: "acme/dns", Version: "1.0.0", Protocols: []string{"5.0"},
		Zips: map[string][]byte{"linux_amd64": archive},
	})
}

// TestReceiptExpires checks that a receipt is valid for a day.
func TestReceiptExpires(t *testing.T) {
	now := time.Now()
	f := newFront(t, func(o *server.Options) { o.Now = func() time.Time { return now } })
	_, body := f.send(t, http.MethodPut, "/v1/providers/acme/dns/1.0.0/files/terraform-provider-dns_1.0.0_SHA256SUMS", "", []byte("x"))
	receipt := decode[struct{ Receipt string }](t, body).Receipt
	now = now.Add(25 * time.Hour)
	status, body := f.send(t, http.MethodPost, "/v1/providers/acme/dns/1.0.0", "", fmt.Appendf(nil, `{"receipts":[%q]}`, receipt))
	if status != 422 || !strings.Contains(string(body), "expired") {
		t.Errorf("%d %s, want 422 that says it expired", status, body)
	}
}

// TestPublishStatus withdraws a version over HTTP, which takes effect at once.
func TestPublishStatus(t *testing.T) {
	start, ticks := time.Now(), atomic.Int64{}
	f := newFront(t, func(o *server.Options) {
		private(t)(o)
		// Events in the same millisecond have no order.
		o.Now = func() time.Time { return start.Add(time.Duration(ticks.Add(1)) * time.Millisecond) }
	})
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	f.module(t, "net/vpc/aws", "1.1.0", map[string]string{"main.tf": ""})
	c := &tofutest.Client{Tool: tofutest.OpenTofu(), Token: readerToken}
	versions := func() string {
		return strings.Join(must.Fixed(c.ModuleVersions(t.Context(), f.url(t, "/v1/modules/"), "net/vpc/aws")), " ")
	}
	const path = "/v1/modules/net/vpc/aws/1.1.0/status"
	long := strings.Repeat("x", 301)
	for _, tt := range []struct {
		name, path, token, body string
		want                    int
		versions                string
	}{
		{"reader", path, readerToken, `{"action":"yank"}`, 403, "1.1.0 1.0.0"},
		{"provider", "/v1/providers/acme/dns/1.0.0/status", publisherToken, `{"action":"yank"}`, 403, "1.1.0 1.0.0"},
		{"no such version", "/v1/modules/net/vpc/aws/9.0.0/status", publisherToken, `{"action":"yank"}`, 404, "1.1.0 1.0.0"},
		{"no such action", path, publisherToken, `{"action":"resign"}`, 422, "1.1.0 1.0.0"},
		{"long message", path, publisherToken, `{"action":"yank","message":"` + long + `"}`, 422, "1.1.0 1.0.0"},
		{"no JSON", path, publisherToken, `yank`, 422, "1.1.0 1.0.0"},
		{"yank", path, publisherToken, `{"action":"yank","message":"leaks"}`, 201, "1.0.0"},
		{"unyank", path, publisherToken, `{"action":"unyank"}`, 201, "1.1.0 1.0.0"},
	} {
		if status, body := f.send(t, http.MethodPost, tt.path, tt.token, []byte(tt.body)); status != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, status, body, tt.want)
		}
		must.Equal(t, tt.name+": versions", versions(), tt.versions)
	}
	f.module(t, "data/secret/aws", "1.0.0", map[string]string{"main.tf": ""})
	for replacement, warned := range map[string]bool{"data/secret/aws": false, "data/absent/aws": false, "net/vpc/aws": false, "net/absent/aws": true} {
		status, body := f.send(t, http.MethodPost, path, publisherToken, []byte(`{"action":"deprecate","replacement":"`+replacement+`"}`))
		if status != 201 || strings.Contains(string(body), "warnings") != warned {
			t.Errorf("replacement %s: %d %s", replacement, status, body)
		}
	}
}
