// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// attack is a user that may write to the queue repository, with a copy of a part from
// when it had one line less.
type attack struct {
	t        *testing.T
	r        *oci.Repo
	a, b     string       // processes
	earlier  oci.Manifest // of the second part of a
	seals    bool
	now      time.Time
	manifest map[string]oci.Manifest
}

func (x *attack) tag(id string, day, part int) string {
	return AuditTag{Day: x.now.AddDate(0, 0, day), ID: id, Part: part}.String()
}

func (x *attack) put(tag string, m oci.Manifest) {
	x.t.Helper()
	if err := x.r.PutTag(x.t.Context(), tag, m); err != nil {
		x.t.Fatal(err)
	}
}

func (x *attack) remove(tag string) {
	x.t.Helper()
	if err := x.r.Untag(x.t.Context(), tag); err != nil {
		x.t.Fatal(err)
	}
}

// edit writes an unencrypted part with other lines, as a user without keys can.
func (x *attack) edit(tag string, change func(lines []byte) []byte) {
	x.t.Helper()
	at, _ := ParseAuditTag(tag)
	lines, _, err := ReadAudit(x.t.Context(), x.r, nil, at, "")
	if x.seals {
		lines, err = []byte(`{"format":1,"tag":"`+tag+`","first":1}`+"\n"+`{"n":1,"address":"x"}`+"\n"), nil
	}
	if err != nil {
		x.t.Fatal(err)
	}
	if err := PutAudit(x.t.Context(), x.r, nil, at, change(lines)); err != nil {
		x.t.Fatal(err)
	}
}

// TestAltered changes the parts as a user with the right to write can: each change is
// reported with the part that it is about, and counted once, with and without keys.
//
// Shows: pages 10 | audit records that were altered, removed or reordered
func TestAltered(t *testing.T) {
	replace := func(old, with string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(with), 1) }
	}
	for name, c := range map[string]struct {
		do     func(x *attack)
		clear  string // reason that is reported without keys
		sealed string // reason with keys
	}{
		"nothing":                 {func(*attack) {}, "", ""},
		"a line edited":           {func(x *attack) { x.edit(x.tag(x.a, 0, 1), replace(`"anna"`, `"otto"`)) }, "goes on from", "does not open"},
		"a line removed":          {func(x *attack) { x.edit(x.tag(x.a, 0, 1), cutLine(2)) }, "belongs", "does not open"},
		"the last line removed":   {func(x *attack) { x.edit(x.tag(x.a, 0, 1), cutLine(3)) }, "goes on from", "does not open"},
		"a part missing":          {func(x *attack) { x.remove(x.tag(x.a, 1, 1)) }, "it is missing", "it is missing"},
		"the first part missing":  {func(x *attack) { x.remove(x.tag(x.a, 0, 1)) }, "it is missing", "it is missing"},
		"the newest part missing": {func(x *attack) { x.remove(x.tag(x.a, 2, 1)) }, "knows of", "knows of"},
		"a process missing": {func(x *attack) {
			for i := range 3 {
				x.remove(x.tag(x.a, i, 1))
			}
		}, "it is missing", "it is missing"},
		"parts reordered": {func(x *attack) {
			x.put(x.tag(x.a, 0, 1), x.manifest[x.tag(x.a, 1, 1)])
			x.put(x.tag(x.a, 1, 1), x.manifest[x.tag(x.a, 0, 1)])
		}, "it says that it is", "does not open"},
		"a part of another process": {func(x *attack) { x.put(x.tag(x.b, 2, 1), x.manifest[x.tag(x.a, 2, 1)]) }, "it says that it is", "does not open"},
		"rolled back":               {func(x *attack) { x.put(x.tag(x.a, 2, 1), x.earlier) }, "knows of number 6", "knows of number 6"},
		"oversized":                 {func(x *attack) { x.oversize(x.tag(x.a, 2, 1)) }, "too large", "too large"},
		"no part at all":            {func(x *attack) { x.notOne(x.tag(x.a, 2, 1)) }, "no audit part", "no audit part"},
		"an endless line":           {func(x *attack) { x.edit(x.tag(x.a, 2, 1), replace(`"anna"`, `"`+strings.Repeat("a", maxLine)+`"`)) }, "a line of", "does not open"},
	} {
		for _, sealed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s sealed %t", name, sealed), func(t *testing.T) {
				var keys artifact.Sealer
				want := c.clear
				if sealed {
					keys, want = newSealer(t, testKey), c.sealed
				}
				x := newAttack(t, keys)
				c.do(x)
				p := newProcess(t, x.r, keys, func() time.Time { return x.now.AddDate(0, 0, 2) })
				v := p.look(t)
				if got := fmt.Sprint(v.Altered); (want == "") != (len(v.Altered) == 0) || !strings.Contains(got, want) {
					t.Fatalf("altered %s, want %q", got, want)
				}
				p.look(t)
				if n := int(p.altered.Load()); n != len(v.Altered) || sealed && want != "" && n > 2 {
					t.Errorf("%d counted of %v", n, v.Altered)
				}
			})
		}
	}
}

// TestAlteredAfterwards removes records that a process has read before, and that no part
// knows of.
//
// Shows: pages 10
func TestAlteredAfterwards(t *testing.T) {
	x := newAttack(t, nil)
	p := newProcess(t, x.r, nil, func() time.Time { return x.now.AddDate(0, 0, 2) })
	if v := p.look(t); len(v.Altered) != 0 {
		t.Fatal(v.Altered)
	}
	x.remove(x.tag(x.b, 2, 1))
	v := p.look(t)
	if len(v.Altered) != 1 || !strings.Contains(v.Altered[0].Reason, "this replica knows of number 3") {
		t.Errorf("altered %v", v.Altered)
	}
	if v := newProcess(t, x.r, nil, func() time.Time { return x.now.AddDate(0, 0, 2) }).look(t); len(v.Altered) != 0 {
		t.Errorf("nobody else knows of it: %v", v.Altered)
	}
}

// newAttack lets two processes write on three days: a six lines in three parts, b one
// line on the first day and two on the last, after a has written.
func newAttack(t *testing.T, keys artifact.Sealer) *attack {
	t.Helper()
	r := queue(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	x := &attack{t: t, r: r, now: now, seals: keys != nil, manifest: map[string]oci.Manifest{}}
	clock := func() time.Time { return now }
	a, b := newProcess(t, r, keys, clock), newProcess(t, r, keys, clock)
	x.a, x.b = a.own.id, b.own.id
	write := func(p *process, lines ...string) {
		t.Helper()
		for _, line := range lines {
			p.change(now, line)
		}
		if err := p.own.write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	write(b, "b1")
	write(a, "a1", "a2")
	now = now.AddDate(0, 0, 1)
	write(a, "a3", "a4")
	now = now.AddDate(0, 0, 1)
	write(a, "a5")
	var err error
	if x.earlier, err = r.Fetch(t.Context(), x.tag(x.a, 2, 1)); err != nil {
		t.Fatal(err)
	}
	write(a, "a6")
	if err := b.refresh(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	write(b, "b2", "b3")
	for _, tag := range tagsOf(t, r) {
		if x.manifest[tag], err = r.Fetch(t.Context(), tag); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// cutLine removes a line; 1 is the header.
func cutLine(n int) func([]byte) []byte {
	return func(b []byte) []byte {
		lines := bytes.SplitAfter(b, []byte("\n"))
		if len(lines) < n {
			return b
		}
		return bytes.Join(append(lines[:n-1:n-1], lines[n:]...), nil)
	}
}

// oversize puts a layer under a tag that is larger than a part may be.
func (x *attack) oversize(tag string) {
	x.layer(tag, artifactAudit, bytes.Repeat([]byte("x"), MaxAuditPart+(2<<10)))
}

// notOne puts another kind of artifact under a tag.
func (x *attack) notOne(tag string) { x.layer(tag, downloads.ArtifactCounts, []byte("[]")) }

func (x *attack) layer(tag, artifactType string, b []byte) {
	x.t.Helper()
	blob := oci.BytesBlob(mediaAudit, b)
	if _, err := x.r.EnsureBlob(x.t.Context(), blob); err != nil {
		x.t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(x.manifest[tag].Bytes, &doc); err != nil {
		x.t.Fatal(err)
	}
	doc["artifactType"], doc["layers"] = artifactType, []any{blob.Descriptor}
	text, err := json.Marshal(doc)
	if err != nil {
		x.t.Fatal(err)
	}
	m := x.manifest[tag]
	m.Bytes, m.Size, m.Digest = text, int64(len(text)), oci.BytesBlob("", text).Descriptor.Digest
	x.put(tag, m)
}
