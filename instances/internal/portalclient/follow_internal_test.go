// SPDX-License-Identifier: Apache-2.0

package portalclient

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/oci"
)

// TestEvents parses frames as sent by servers and proxies.
//
// Shows: platform-attacks 18
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
			err := readEvents(strings.NewReader(tt.text), func(e event) error { got = append(got, e); return nil })
			if !errors.Is(err, tt.err) {
				t.Errorf("%v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(event{})); diff != "" {
				t.Errorf("events (-want +got):\n%.500s", diff)
			}
		})
	}
	stop := errors.New("enough")
	if err := readEvents(strings.NewReader("data: a\n\ndata: b\n\n"), func(event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want %v", err, stop)
	}
}

func FuzzEvents(f *testing.F) {
	for _, s := range []string{"id: 7\nevent: end\ndata: {}\n\n", ": c\n\ndata:a\ndata: b\n\n", "data\n\n", "\n\n\x00:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size := 0
		err := readEvents(strings.NewReader(text), func(e event) error {
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
