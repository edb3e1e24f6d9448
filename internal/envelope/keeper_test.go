// SPDX-License-Identifier: Apache-2.0

package envelope_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/envelope"
)

// newVault serves Vault's two calls to wrap keys in names, by the environment, which the library
// reads once: one test may call it.
func newVault(t *testing.T, names ...string) (deny *atomic.Bool) {
	t.Helper()
	deny = new(atomic.Bool)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Plaintext, Ciphertext string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("X-Vault-Token") != "a-token" || deny.Load() {
			http.Error(w, `{"errors":["permission denied"]}`, http.StatusForbidden)
			return
		}
		for _, name := range names {
			switch r.URL.Path {
			case "/v1/transit/encrypt/" + name:
				_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{"ciphertext": "vault:v1:" + name + ":" + in.Plaintext}})
				return
			case "/v1/transit/decrypt/" + name:
				plain, ok := strings.CutPrefix(in.Ciphertext, "vault:v1:"+name+":")
				if !ok {
					http.Error(w, `{"errors":["invalid ciphertext"]}`, http.StatusBadRequest)
					return
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{"plaintext": plain}})
				return
			}
		}
		http.Error(w, `{"errors":["no such key"]}`, http.StatusNotFound)
	}))
	t.Cleanup(s.Close)
	t.Setenv("VAULT_SERVER_URL", s.URL)
	t.Setenv("VAULT_SERVER_TOKEN", "a-token")
	t.Setenv("VAULT_MAX_RETRIES", "0")
	return deny
}

func TestKeyService(t *testing.T) {
	deny := newVault(t, "one", "two")
	one := newEnvelope(t, envelope.Options{Keys: []string{"hashivault://one"}})
	sealed, annotations := mustSeal(t, one, "state", "place")
	if got, err := one.Open(t.Context(), sealed, annotations, []byte("place")); err != nil || string(got) != "state" {
		t.Errorf("opened %q, %v", got, err)
	}
	if !strings.Contains(annotations[envelope.AnnotationWraps], `"key":"hashivault://one"`) {
		t.Errorf("annotations do not name the key: %v", annotations)
	}
	two := newEnvelope(t, envelope.Options{Keys: []string{"hashivault://two"}})
	if _, err := two.Open(t.Context(), sealed, annotations, []byte("place")); !errors.Is(err, envelope.ErrKey) {
		t.Errorf("another key of the service: %v", err)
	}
	deny.Store(true)
	if _, err := one.Open(t.Context(), sealed, annotations, []byte("place")); !errors.Is(err, envelope.ErrKey) || strings.Contains(err.Error(), "a-token") {
		t.Errorf("without permission: %v", err)
	}
	if _, _, err := one.Seal(t.Context(), []byte("state"), nil); err == nil || !strings.Contains(err.Error(), "hashivault://one") {
		t.Errorf("seal without permission: %v", err)
	}
}

// TestKeyReferences: the schemes are linked in; no service is contacted yet.
func TestKeyReferences(t *testing.T) {
	for _, reference := range []string{
		"awskms://alias/state?region=eu-central-1",
		"awskms:///arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab?region=eu-central-1",
		"gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k",
		"azurekeyvault://example.vault.azure.net/keys/state",
		"hashivault://state",
	} {
		if _, err := envelope.New(envelope.Options{Keys: []string{reference}}); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
	}
}
