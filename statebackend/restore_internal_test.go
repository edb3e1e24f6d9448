// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"errors"
	"strings"
	"testing"
)

func TestWithSerial(t *testing.T) {
	const encrypted = `{"serial":3,"lineage":"a","encrypted_data":"AAAA","encryption_version":"v0"}`
	tests := []struct {
		name, state, want string
		err               error
	}{
		{"in the middle", `{"version":4, "serial" : 3 ,"x":{"serial":1}}`, `{"version":4, "serial" : 12 ,"x":{"serial":1}}`, nil},
		{"after others of the same name", `{"x":{"serial":1},"y":[{"serial":2}],"serial":3}`, `{"x":{"serial":1},"y":[{"serial":2}],"serial":12}`, nil},
		{"encrypted by OpenTofu", encrypted, encrypted, nil},
		{"none", `{"version":4}`, "", ErrNotState},
		{"cut", `{"version":4,"x":`, "", ErrNotState},
		{"no object", `[]`, "", ErrNotState},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := withSerial([]byte(tt.state), 12)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if string(got) != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func FuzzWithSerial(f *testing.F) {
	f.Add(`{"version":4,"serial":3,"lineage":"a"}`)
	f.Add(`{"a":[{"serial":1}],"serial":3e2}`)
	f.Add(`{"encrypted_data":1,"serial":1}`)
	f.Fuzz(func(t *testing.T, state string) {
		got, err := withSerial([]byte(state), 77)
		twice := strings.Count(state, "serial") > 1 // readers of JSON differ in which one counts; no tool writes it
		if err != nil || twice || CheckState([]byte(state)) != nil || EncryptedByTool([]byte(state)) {
			return
		}
		lineage, _, _ := Meta([]byte(state))
		if l, serial, ok := Meta(got); !ok || serial != 77 || l != lineage {
			t.Errorf("%q became %q: %q, %d, %v", state, got, l, serial, ok)
		}
	})
}

// TestCompressedSizes: of exactly 1,024 bytes the encoder makes a frame with a window larger than the content.
func TestCompressedSizes(t *testing.T) {
	for _, how := range []string{"zstd", "gzip"} {
		for n := 1000; n < 1050; n++ {
			want := []byte(strings.Repeat(`{"version":4}`, n/13+1)[:n])
			e, err := compressState(want, how)
			if err != nil {
				t.Fatal(err)
			}
			got := e.bytes
			switch e.encoding {
			case suffixZstd:
				got, err = unzstd(e.bytes, int64(n))
			case suffixGzip:
				got, err = gunzip(e.bytes, int64(n))
			}
			if err != nil || string(got) != string(want) {
				t.Errorf("%s of %d bytes: %v", how, n, err)
			}
		}
	}
}
