// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

func newSealer(t *testing.T, key string) statebackend.Sealer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	must.Succeed(t, os.WriteFile(file, []byte(strings.Repeat(key, 32)), 0o600))
	return must.Get(envelope.New(envelope.Options{Keys: []string{file}}))(t)
}

func TestEncryption(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	sealed := statebackend.Options{Sealer: newSealer(t, "k")}
	s := newStore(t, host, nil, sealed)
	want := testState(1, 100<<10)
	l := mustLock(t, s, "prod", "a")
	v := mustPut(t, l, want)
	if !v.Encrypted || v.Size > 10<<10 {
		t.Errorf("version: %+v, want it encrypted after compression", v)
	}
	// The successor of an overtaken lock copies blob and origin unchanged.
	l = must.Get(newStore(t, host, nil, sealed).TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b"}))(t)
	if got, v, err := l.Get(t.Context()); err != nil || !bytes.Equal(got, want) || v.N < 100_000 {
		t.Errorf("sealed head: %d bytes, %+v, %v", len(got), v, err)
	}
	mustUnlock(t, l)
	for name, o := range map[string]statebackend.Options{"no key": {}, "another key": {Sealer: newSealer(t, "x")}} {
		if got, _, err := newStore(t, host, nil, o).Get(t.Context(), "prod"); err == nil || len(got) > 0 {
			t.Errorf("%s: read %d bytes, %v", name, len(got), err)
		}
	}
}

// A sealed state does not return to clear: without a key nothing earlier is restored.
func TestRestoreWithoutKey(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	sealer := newSealer(t, "k")
	plain := newStore(t, host, nil, statebackend.Options{})
	keyed := newStore(t, host, nil, statebackend.Options{Sealer: sealer})
	old := testState(1, 100)
	mustStore(t, plain, "prod", old)
	seals := newStore(t, host, nil, statebackend.Options{Sealer: sealer, Unsealed: true})
	l := mustLock(t, seals, "prod", "b")
	sealed := mustPut(t, l, testState(2, 100))
	mustUnlock(t, l)

	l = mustLock(t, plain, "prod", "c")
	if v, err := l.Restore(t.Context(), old, true); err == nil {
		t.Errorf("restored as %+v in clear", v)
	}
	mustUnlock(t, l)
	if _, v, err := keyed.Get(t.Context(), "prod"); err != nil || v.Serial != sealed.Serial {
		t.Errorf("after the refusal: %+v, %v", v, err)
	}
	l = mustLock(t, keyed, "prod", "d")
	if v, err := l.Restore(t.Context(), testState(2, 100), false); err != nil || !v.Encrypted {
		t.Errorf("with the key: %+v, %v", v, err)
	}
	mustUnlock(t, l)
}

// Sealed bytes moved to another workspace do not open.
func TestEncryptionBindsWorkspace(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{Sealer: newSealer(t, "k")})
	mustStore(t, s, "prod", []byte("secret"))
	m, err := s.Repo().Fetch(t.Context(), "state-prod-v1")
	if err != nil {
		t.Fatal(err)
	}
	sm := must.Get(format.ParseState(m))(t)
	sm.Workspace, sm.Origin.Workspace = "dev", "dev"
	if m, err = format.NewStateManifest(sm); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, s.Repo().PutTag(t.Context(), "state-dev", m))
	if got, _, err := s.Get(t.Context(), "dev"); err == nil {
		t.Errorf("read %q of another workspace", got)
	}
}

// A state that OpenTofu encrypted is stored unchanged.
func TestEncryptedByTool(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	want := `{"serial":3,"lineage":"l-9","meta":{"key_provider.pbkdf2.x":"eyJ9"},"encrypted_data":"` + strings.Repeat("QUJD", 1000) + `","encryption_version":"v0"}`
	s := newStore(t, host, nil, statebackend.Options{Sealer: newSealer(t, "k")})
	l := mustLock(t, s, "prod", "a")
	v := mustPut(t, l, []byte(want))
	mustUnlock(t, l)
	if v.Encrypted || v.Size != int64(len(want)) || v.Serial != 3 || v.Lineage != "l-9" {
		t.Errorf("version: %+v", v)
	}
	if got := mustGet(t, newStore(t, host, nil, statebackend.Options{}), "prod"); got != want {
		t.Errorf("%d bytes, want the %d that were written", len(got), len(want))
	}
}

func TestMeta(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tc := range []struct {
		name, state   string
		lineage       string
		serial        uint64
		ok, encrypted bool
	}{
		{"plain", `{"version":4,"terraform_version":"1","serial":7,"lineage":"a","outputs":{}}`, "a", 7, true, false},
		{"other order", `{"outputs":{"lineage":"no","x":[1,{"serial":9}]},"lineage":"a","serial":7}`, "a", 7, true, false},
		{"encrypted", `{"serial":7,"lineage":"a","meta":{},"encrypted_data":"QQ==","encryption_version":"v0"}`, "a", 7, true, true},
		{"encrypted, other order", `{"encrypted_data":"QQ==","serial":7,"lineage":"a"}`, "a", 7, true, true},
		{"no serial", `{"version":4,"lineage":"a"}`, "a", 0, false, false},
		{"no JSON", `hello`, "", 0, false, false},
		{"empty", ``, "", 0, false, false},
		{"array", `[{"serial":7,"lineage":"a"}]`, "", 0, false, false},
		{"cut", `{"version":4,"outputs":{"x":`, "", 0, false, false},
		{"deep", `{"x":` + nested(1000) + `,"lineage":"a","serial":7,"version":4}`, "a", 7, true, false},
		{"too deep", `{"x":` + nested(1001) + `,"lineage":"a","serial":7,"version":4}`, "", 0, false, false},
	} {
		lineage, serial, ok := statebackend.Meta([]byte(tc.state))
		if lineage != tc.lineage || serial != tc.serial || ok != tc.ok || statebackend.EncryptedByTool([]byte(tc.state)) != tc.encrypted {
			t.Errorf("%s: %q, %d, %t, %t", tc.name, lineage, serial, ok, statebackend.EncryptedByTool([]byte(tc.state)))
		}
	}
}

// An unreadable state is a distinct error, and it is never overwritten.
func TestUnreadable(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{Compression: "none"})
	mustStore(t, s, "prod", testState(1, 100<<10))
	for _, tc := range []struct {
		name string
		do   ocitest.Act
		on   string
		want error
	}{
		{"corrupt blob", ocitest.Corrupt, "blob", oci.ErrCorrupt},
		{"blob is gone", ocitest.Status(404, -1), "blob", oci.ErrCorrupt},
		{"denied", ocitest.Status(403, -1), "manifest", oci.ErrDenied},
		{"HTML", ocitest.Respond("text/html", "<html>login</html>"), "manifest", nil},
		{"large manifest", ocitest.Respond("application/vnd.oci.image.manifest.v1+json", strings.Repeat(" ", 5<<20)), "manifest", oci.ErrTooLarge},
	} {
		f := &ocitest.Fault{Match: ocitest.On(http.MethodGet, tc.on), Times: -1, Do: tc.do}
		got, _, err := newStore(t, host, f, statebackend.Options{}).Get(t.Context(), "prod")
		if err == nil || len(got) > 0 || tc.want != nil && !errors.Is(err, tc.want) || errors.Is(err, oci.ErrNotFound) {
			t.Errorf("%s: %d bytes, %v", tc.name, len(got), err)
		}
	}
	small := newStore(t, host, nil, statebackend.Options{MaxState: 1000})
	if _, _, err := small.Get(t.Context(), "prod"); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("get above the limit: %v", err)
	}
	if _, err := mustLock(t, small, "prod", "b").Put(t.Context(), make([]byte, 1001)); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("put above the limit: %v", err)
	}
}
