// SPDX-License-Identifier: Apache-2.0

package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
)

const base64Key = "base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="

func TestSealOpen(t *testing.T) {
	raw := newKeyFile(t, bytes.Repeat([]byte{7}, 32))
	hexFile := newKeyFile(t, []byte(strings.Repeat("07", 32)+"\n"))
	identity, recipient := newIdentity(t)
	both := envelope.Options{Keys: []string{raw, recipient, base64Key}}
	tests := []struct {
		name       string
		seal, open envelope.Options
	}{
		{"base64key", envelope.Options{Keys: []string{base64Key}}, envelope.Options{Keys: []string{base64Key}}},
		{"raw key file", envelope.Options{Keys: []string{raw}}, envelope.Options{Keys: []string{"file://" + raw}}},
		{"same key in hexadecimal", envelope.Options{Keys: []string{raw}}, envelope.Options{Keys: []string{hexFile}}},
		{"age recipient", envelope.Options{Keys: []string{recipient}}, envelope.Options{Identities: []string{identity}}},
		{"age identity file seals too", envelope.Options{Keys: []string{identity}}, envelope.Options{Keys: []string{identity}}},
		{"one of three, file", both, envelope.Options{Keys: []string{raw}}},
		{"one of three, age", both, envelope.Options{Identities: []string{identity}}},
		{"one of three, base64key", both, envelope.Options{Keys: []string{base64Key}}},
	}
	plain, aad := []byte(`{"serial":1}`), []byte("place")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sealed, annotations := must.GetBoth(newEnvelope(t, tt.seal).Seal(t.Context(), plain, aad))(t)
			if bytes.Contains(sealed, plain) {
				t.Error("sealed text contains the plain text")
			}
			got := must.Get(newEnvelope(t, tt.open).Open(t.Context(), sealed, annotations, aad))(t)
			must.Match(t, "plain text", got, plain)
		})
	}
}

func TestSealIsFresh(t *testing.T) {
	e := newEnvelope(t, envelope.Options{Keys: []string{base64Key}})
	one, annOne := mustSeal(t, e, "same", "place")
	two, annTwo := mustSeal(t, e, "same", "place")
	if bytes.Equal(one, two) || maps.Equal(annOne, annTwo) {
		t.Error("two seals of one text are equal")
	}
	if _, err := e.Open(t.Context(), one, annTwo, []byte("place")); !errors.Is(err, envelope.ErrSealed) {
		t.Errorf("a text opens with the data key of another: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	e := newEnvelope(t, envelope.Options{Keys: []string{base64Key}})
	other := newEnvelope(t, envelope.Options{Keys: []string{newKeyFile(t, bytes.Repeat([]byte{9}, 32))}})
	_, recipient := newIdentity(t)
	sealed, annotations := mustSeal(t, e, `{"serial":1}`, "place")
	flipped := bytes.Clone(sealed)
	flipped[len(flipped)-20] ^= 1
	with := func(name, value string) map[string]string {
		m := maps.Clone(annotations)
		m[name] = value
		return m
	}
	tests := []struct {
		name        string
		e           *envelope.Envelope
		sealed      []byte
		annotations map[string]string
		aad         string
		want        error
		text        string
	}{
		{"another key", other, sealed, annotations, "place", envelope.ErrKey, "encrypted with base64key:"},
		{"no key", newEnvelope(t, envelope.Options{}), sealed, annotations, "place", envelope.ErrKey, "no key is configured"},
		{"a recipient only", newEnvelope(t, envelope.Options{Keys: []string{recipient}}), sealed, annotations, "place", envelope.ErrKey, "configured keys: age1"},
		{"truncated", e, sealed[:len(sealed)-1], annotations, "place", envelope.ErrSealed, "truncated"},
		{"header only", e, sealed[:20], annotations, "place", envelope.ErrSealed, "without the header"},
		{"empty", e, nil, annotations, "place", envelope.ErrSealed, "without the header"},
		{"extended", e, append(bytes.Clone(sealed), 0), annotations, "place", envelope.ErrSealed, "extended"},
		{"flipped bit", e, flipped, annotations, "place", envelope.ErrSealed, "modified"},
		{"another place", e, sealed, annotations, "elsewhere", envelope.ErrSealed, "another repository, workspace or version"},
		{"no annotations", e, sealed, nil, "place", envelope.ErrSealed, "format"},
		{"later format", e, sealed, with(envelope.AnnotationFormat, "2"), "place", envelope.ErrSealed, `"2"`},
		{"wraps not JSON", e, sealed, with(envelope.AnnotationWraps, "{"), "place", envelope.ErrSealed, "wrapped keys"},
		{"wraps huge", e, sealed, with(envelope.AnnotationWraps, strings.Repeat("[", 70_000)), "place", envelope.ErrSealed, "70000 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.e.Open(t.Context(), tt.sealed, tt.annotations, []byte(tt.aad))
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %q does not say %q", err, tt.text)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	open := newKeyFile(t, bytes.Repeat([]byte{7}, 32))
	must.Succeed(t, os.Chmod(open, 0o644))
	tests := []struct {
		name, key, text string
	}{
		{"empty", "", "empty"},
		{"base64key without a key", "base64key://", "no key"},
		{"base64key too short", "base64key://c2VjcmV0", "32 bytes"},
		{"unknown scheme", "vault://x", `unknown scheme "vault"`},
		{"URL with password", "hashivault://user:secret@host/key", "user name"},
		{"malformed recipient", "age1qqq", "malformed"},
		{"missing file", filepath.Join(t.TempDir(), "absent"), "no such file"},
		{"file open to others", open, "0644"},
		{"file of the wrong size", newKeyFile(t, []byte("secret")), "neither 32 bytes"},
		{"broken identity", newKeyFile(t, []byte("AGE-SECRET-KEY-1SECRET")), "identities are malformed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := envelope.New(envelope.Options{Keys: []string{tt.key}})
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %q does not say %q", err, tt.text)
			}
			for _, secret := range []string{"c2VjcmV0", "secret@", "1SECRET"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("error %q shows the secret", err)
				}
			}
		})
	}
}

func TestNoKeySealsNothing(t *testing.T) {
	if _, _, err := newEnvelope(t, envelope.Options{}).Seal(t.Context(), []byte("x"), nil); err == nil {
		t.Error("sealed without a key")
	}
}

// update makes TestVectors write vectors; committed ones stay readable.
var update = flag.Bool("update", false, "rewrite testdata")

type vector struct {
	Name        string            `json:"name"`
	Key         string            `json:"key"` // a reference, or the name of a file in testdata
	AAD         string            `json:"aad"`
	Annotations map[string]string `json:"annotations"`
	Sealed      []byte            `json:"sealed"`
	Plain       string            `json:"plain"`
}

// TestVectors opens texts that an earlier build sealed.
func TestVectors(t *testing.T) {
	path := filepath.Join("testdata", "vectors.json")
	if *update {
		writeVectors(t, path)
	}
	b := must.Get(os.ReadFile(path))(t)
	var vectors []vector
	must.Succeed(t, json.Unmarshal(b, &vectors))
	if len(vectors) < 3 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			e := newEnvelope(t, envelope.Options{Keys: []string{vectorKey(t, v.Key)}})
			got := must.Get(e.Open(t.Context(), v.Sealed, v.Annotations, []byte(v.AAD)))(t)
			if string(got) != v.Plain {
				t.Errorf("plain text %q, want %q", got, v.Plain)
			}
		})
	}
}

// vectorKey copies a committed key file with mode 0600.
func vectorKey(t *testing.T, key string) string {
	if strings.Contains(key, "://") {
		return key
	}
	b := must.Get(os.ReadFile(filepath.Join("testdata", key)))(t)
	return newKeyFile(t, b)
}

func writeVectors(t *testing.T, path string) {
	var vectors []vector
	for _, v := range []vector{
		{Name: "base64key", Key: base64Key},
		{Name: "raw key file", Key: "raw.key"},
		{Name: "age identity", Key: "age.key"},
	} {
		v.AAD, v.Plain = "a place\n", `{"version":4,"serial":1,"lineage":"5d0c0e0c"}`
		v.Sealed, v.Annotations = mustSeal(t, newEnvelope(t, envelope.Options{Keys: []string{vectorKey(t, v.Key)}}), v.Plain, v.AAD)
		vectors = append(vectors, v)
	}
	b := must.Get(json.MarshalIndent(vectors, "", "  "))(t)
	must.Succeed(t, os.WriteFile(path, append(b, '\n'), 0o644))
}

func newEnvelope(t *testing.T, o envelope.Options) *envelope.Envelope {
	t.Helper()
	return must.Get(envelope.New(o))(t)
}

func mustSeal(t *testing.T, e *envelope.Envelope, plain, aad string) ([]byte, map[string]string) {
	t.Helper()
	return must.GetBoth(e.Seal(t.Context(), []byte(plain), []byte(aad)))(t)
}

func newKeyFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	must.Succeed(t, os.WriteFile(path, content, 0o600))
	return path
}

// newIdentity returns the path of an age identity file and its recipient.
func newIdentity(t *testing.T) (path, recipient string) {
	t.Helper()
	i := must.Get(age.GenerateX25519Identity())(t)
	return newKeyFile(t, []byte("# created by a test\n"+i.String()+"\n")), i.Recipient().String()
}
