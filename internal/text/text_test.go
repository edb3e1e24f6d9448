// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"math"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/text"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "7": 7, "7B": 7, "500MB": 500_000_000, "20GiB": 20 << 30, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := text.ParseSize(in); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "GiB", "-1", "1.5GiB", "1 GiB", "1gib", "1iB", "8388608TiB", "9223372036854775808"} {
		if got, err := text.ParseSize(in); err == nil {
			t.Errorf("%q: got %d, want an error", in, got)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 19: "1.5 MiB", 20 << 30: "20.0 GiB", 2048 << 40: "2048.0 TiB",
	} {
		if got := text.Size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"12345678", "12345678"},
		{"123456789", "12345…"},
		{"1234ä6789", "1234…"}, // the limit is inside of the ä
	} {
		must.Equal(t, tt.in, text.Clip(tt.in, 8), tt.want)
	}
}

func TestBeginning(t *testing.T) {
	b := text.Beginning{Max: 6}
	for written, kept := range []string{"", "1234", "123412", "123412"} {
		if string(b.Bytes()) != kept || b.Size != int64(4*written) || b.IsCut() != (written > 1) {
			t.Errorf("of %d bytes %q is kept, cut %v", b.Size, b.Bytes(), b.IsCut())
		}
		if n, err := b.Write([]byte("1234")); n != 4 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
}
