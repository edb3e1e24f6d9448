// SPDX-License-Identifier: Apache-2.0

package keyring

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

func TestKeyringRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		keys []Key
		want string
	}{
		{"none", nil, "none given"},
		{"short", []Key{{Secret: []byte("short")}}, "at least 32"},
		{"bad id", []Key{{ID: "a.b", Secret: bytes.Repeat([]byte{1}, 32)}}, "lower-case"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(tt.keys); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// FuzzSealed: only what this ring sealed for the purpose opens.
func FuzzSealed(f *testing.F) {
	keys := must.Get(New([]Key{{Secret: make([]byte, 32)}}))(f)
	good := must.Get(keys.Seal("code", "content"))(f)
	f.Add(good)
	f.Add("k.")
	f.Add((*keys.now.Load())[0].ID + ".AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, sealed string) {
		var v string
		if err := keys.Open("token", sealed, &v); err == nil {
			t.Errorf("%q opens for another purpose", sealed)
		}
		if err := keys.Open("code", sealed, &v); err == nil && v != "content" {
			t.Errorf("%q opens as %q", sealed, v)
		}
	})
}
