// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// Shows: pages 8
// Shows: platform-attacks 15
// Shows: instances 8
func TestMasks(t *testing.T) {
	secret := "p@ss w<rd\"of\\kéys+/="
	lines := "-----BEGIN KEY-----\nMIIEvgIBADANBgkq\r\nshort\n-----END KEY-----\n"
	quoted := must.Get(json.Marshal(secret))(t)
	m := newMasks([]string{secret, lines, "tiny", "abcdefgh", "efghijkl"})
	for name, text := range map[string]string{
		"plain":                  "x " + secret + " y",
		"JSON":                   `{"a":` + string(quoted) + `}`,
		"JSON, HTML not escaped": `{"a":"p@ss w<rd\"of\\kéys+/="}`,
		"query":                  "https://h/?p=" + url.QueryEscape(secret),
		"path":                   "https://h/" + url.PathEscape(secret),
		"base64":                 base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 at 1":            base64.StdEncoding.EncodeToString([]byte("u" + secret)),
		"base64 at 2":            base64.StdEncoding.EncodeToString([]byte("u:" + secret)),
		"base64 at 3":            base64.URLEncoding.EncodeToString([]byte("me:" + secret + "!")),
		"one line":               "  MIIEvgIBADANBgkq\n",
		"overlapping":            "abcdefghijkl",
	} {
		got := m.text(text)
		if !strings.Contains(got, masked) {
			t.Errorf("%s: %q stays", name, got)
		}
		for _, part := range []string{secret, "MIIEvgIBADANBgkq", "abcdefgh", "ijkl", url.QueryEscape(secret)} {
			if strings.Contains(got, part) {
				t.Errorf("%s: %q has %q", name, got, part)
			}
		}
	}
	for _, text := range []string{"tiny short", "", "abcdefg", "é"} {
		if got := m.text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := newMasks(nil).text("anything"); got != "anything" {
		t.Errorf("without values: %q", got)
	}
}

// TestMasksAtOnce holds back only what may be the beginning of a value: who follows a log
// sees a line when it is written.
func TestMasksAtOnce(t *testing.T) {
	m := newMasks([]string{"a secret value", strings.Repeat("long", 500)})
	var b bytes.Buffer
	w := m.writer(&b)
	for _, step := range []struct{ text, want string }{
		{"Creating...\n", "Creating...\n"},
		{"it is a secr", "it is "},
		{"et\n", "a secret\n"},
		{"it is a secret val", "it is "},
		{"ue", masked},
		{"\nlonglonglong", "\n"},
		{"er\n", "longlonglonger\n"},
	} {
		b.Reset()
		if _, err := w.Write([]byte(step.text)); err != nil || b.String() != step.want {
			t.Errorf("%q: %q, %v, want %q", step.text, b.String(), err, step.want)
		}
	}
}

// FuzzMasks writes a text with a value in it in pieces of any size: the value is never in
// the output, which does not depend on the pieces.
func FuzzMasks(f *testing.F) {
	f.Add("a secret value", "before ", " after", uint8(3))
	f.Add("aaaaaaaaa", "aaaa", "aaa", uint8(1))
	f.Add("line one is long\nline two is long", "\n", "\n", uint8(7))
	f.Fuzz(func(t *testing.T, value, before, after string, size uint8) {
		if len(value) < minMasked || len(value) > maxMasked || strings.Contains(masked, value) || strings.Contains(value, masked) {
			return
		}
		m := newMasks([]string{value})
		text := before + value + after
		var b bytes.Buffer
		w := m.writer(&b)
		for rest := []byte(text); len(rest) > 0; {
			n := min(int(size)%17+1, len(rest))
			must.Get(w.Write(rest[:n]))(t)
			rest = rest[n:]
		}
		must.Succeed(t, w.Close())
		if b.String() != m.text(text) {
			t.Errorf("in pieces %q, at once %q", b.String(), m.text(text))
		}
		if !strings.Contains(b.String(), masked) {
			t.Errorf("%q: nothing is masked in %q", value, b.String())
		}
		// Text beside a mask may happen to form the value together with it; the parts
		// between masks may not contain it.
		for part := range strings.SplitSeq(b.String(), masked) {
			if strings.Contains(part, value) {
				t.Errorf("%q is still in %q", value, b.String())
			}
		}
	})
}
