// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestRevokedKeys checks what a server serves after a stolen key was configured
// as revoked.
//
// Shows: mistakes 21
func TestRevokedKeys(t *testing.T) {
	thief := must.Fixed(signing.NewKey(signing.KeyOptions{Name: "stolen", ECC: true}))
	stolen, own := servedKey(must.Fixed(thief.Public())), servedKey(must.Fixed(testSigner().Public()))
	disguised := artifact.SigningKey{KeyID: own.KeyID, ASCIIArmor: stolen.ASCIIArmor} // the clients read only the key
	line := []byte(strings.Split(stolen.ASCIIArmor, "\n")[2])                         // of the key
	byThief := func(sums []byte) []byte { return must.Fixed(thief.Sign(sums, time.Now())) }
	var log bytes.Buffer
	f := newFront(t, func(o *server.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Revoked = must.Fixed(catalog.ParseRevokedKeys([]string{"ABCDEFABCDEFABCD", strings.ToLower(must.Fixed(thief.Public()).Fingerprint)}))
	})
	c := &tofutest.Client{Tool: tofutest.OpenTofu()}
	for _, tt := range []struct {
		address string
		rel     release
		want    int
	}{
		{"acme/one", release{keys: []artifact.SigningKey{own}}, http.StatusOK},
		{"acme/two", release{keys: []artifact.SigningKey{stolen}, sign: byThief}, http.StatusNotFound},
		{"acme/three", release{keys: []artifact.SigningKey{stolen, own}, sign: byThief}, http.StatusNotFound},
		{"acme/four", release{keys: []artifact.SigningKey{stolen, own}}, http.StatusOK},
		{"acme/five", release{keys: []artifact.SigningKey{stolen, own}, sign: func(sums []byte) []byte {
			return slices.Concat(byThief(sums), must.Fixed(testSigner().Sign(sums, time.Now())))
		}}, http.StatusOK},
		{"acme/six", release{keys: []artifact.SigningKey{disguised}, sign: byThief}, http.StatusNotFound},
		{"acme/seven", release{keys: []artifact.SigningKey{disguised, own}}, http.StatusOK},
	} {
		tt.rel.address, tt.rel.version, tt.rel.platforms = tt.address, "1.0.0", []string{"linux_amd64"}
		f.provider(t, tt.rel)
		resp, body := ask(t, http.MethodGet, f.url(t, "/v1/providers/"+tt.address+"/1.0.0/download/linux/amd64"))
		if resp.StatusCode != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.address, resp.StatusCode, body, tt.want)
		}
		if bytes.Contains([]byte(body), []byte(stolen.KeyID)) || bytes.Contains(body, line) {
			t.Errorf("%s: the answer has the stolen key:\n%s", tt.address, body)
		}
		if _, err := c.Provider(t.Context(), f.services(t, c).Providers, "example.com", tt.address, "1.0.0", "linux", "amd64"); (err == nil) != (tt.want == http.StatusOK) {
			t.Errorf("%s: a client says %v", tt.address, err)
		}
	}
	if !strings.Contains(log.String(), "no longer has a valid signature") {
		t.Errorf("the log says nothing: %s", &log)
	}
}

func TestParseRevokedKeysRefuses(t *testing.T) {
	for _, text := range []string{"", "DEADBEEF", "0x6F3C0A1B2C3D4E5F", "6F3C0A1B2C3D4E5G", strings.Repeat("A", 39)} {
		if _, err := catalog.ParseRevokedKeys([]string{text}); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
}
