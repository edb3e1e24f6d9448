// SPDX-License-Identifier: Apache-2.0

package portalclient

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/oci"
)

// TestEvents reads frames as servers and what is between send them.
func TestEvents(t *testing.T) {
	long := strings.Repeat("x", maxFrame-len("data: ")-1)
	for _, tt := range []struct {
		name, text string
		want       []event
		err        error
	}{
		{"none", "", nil, io.EOF},
		{"one", "id: 7\nevent: end\ndata: {}\n\n", []event{{"7", "end", "{}"}}, io.EOF},
		{"comments and what nobody knows", ": beat\n\nretry: 5\nid: 1\ndata:a\n\n", []event{{"1", "", "a"}}, io.EOF},
		{"no data is no event", "id: 7\nevent: end\n\ndata: a\n\n", []event{{"", "", "a"}}, io.EOF},
		{"cut off in an event", "data: a\n\ndata: b\n", []event{{"", "", "a"}}, io.EOF},
		{"carriage returns are text", "data: a\r\n\n", []event{{"", "", "a"}}, io.EOF},
		{"as long as may be", "data: " + long + "\n\n", []event{{"", "", long}}, io.EOF},
		{"a line too long", "data: x" + long + "\n\n", nil, oci.ErrCorrupt},
		{"an event too long", "data: " + long + "\ndata: " + long + "\n\n", nil, oci.ErrCorrupt},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []event
			err := events(strings.NewReader(tt.text), func(e event) error { got = append(got, e); return nil })
			if !errors.Is(err, tt.err) {
				t.Errorf("%v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(event{})); diff != "" {
				t.Errorf("events (-want +got):\n%.500s", diff)
			}
		})
	}
	stop := errors.New("enough")
	if err := events(strings.NewReader("data: a\n\ndata: b\n\n"), func(event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want %v", err, stop)
	}
}

func FuzzEvents(f *testing.F) {
	for _, s := range []string{"id: 7\nevent: end\ndata: {}\n\n", ": c\n\ndata:a\ndata: b\n\n", "data\n\n", "\n\n\x00:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size := 0
		err := events(strings.NewReader(text), func(e event) error {
			if e.data == "" || strings.Contains(e.id+e.name+e.data, "\n") {
				t.Errorf("event %q", e)
			}
			size += len(e.data)
			return nil
		})
		if err == nil {
			t.Error("it never ended")
		}
		if size > len(text) {
			t.Errorf("%d bytes of data in %d", size, len(text))
		}
	})
}

// TestPlainWriter passes characters that come in pieces, and no control.
func TestPlainWriter(t *testing.T) {
	text := "grün\n\ttab \x1b[31mred\x7f \u009b31mred \u0085 \r\u2713 \xff!\n"
	const want = "grün\n\ttab [31mred 31mred  \u2713 ?!\n"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := PlainWriter(&out)
		for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if n, err := w.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
				t.Fatal(n, err)
			}
		}
		if out.String() != want {
			t.Errorf("in pieces of %d bytes: %q, want %q", size, out.String(), want)
		}
	}
	if got := Plain("a\x1b]0;x\x07\u009bb\n\xff"); got != "a ]0;x  b ?" {
		t.Errorf("%q", got)
	}
}

func FuzzPlainWriter(f *testing.F) {
	f.Add([]byte("a\xc2"), []byte("\x9bb"))
	f.Add([]byte("\xf0\x9f"), []byte("\x98\x80"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var one, two bytes.Buffer
		w := PlainWriter(&one)
		_, _ = w.Write(a)
		_, _ = w.Write(b)
		_, _ = PlainWriter(&two).Write(append(bytes.Clone(a), b...))
		if !bytes.Equal(one.Bytes(), two.Bytes()) || !utf8.Valid(one.Bytes()) {
			t.Errorf("%q and %q make %q, and together %q", a, b, one.Bytes(), two.Bytes())
		}
		for _, r := range one.String() {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%q passed", r)
			}
		}
	})
}
