// SPDX-License-Identifier: Apache-2.0

package child

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/must"
)

// applied is the output of tofu 1.12.6, shortened.
const applied = `{"@level":"info","@message":"OpenTofu 1.12.6","type":"version","tofu":"1.12.6","ui":"1.2"}
{"@level":"info","@message":"terraform_data.a: Plan to replace","change":{"resource":{"addr":"terraform_data.a"},"action":"replace"},"type":"planned_change"}
{"@level":"info","@message":"Plan: 1 to add, 0 to change, 1 to destroy.","changes":{"add":1,"change":0,"import":0,"remove":1,"operation":"plan"},"type":"change_summary"}
{"@level":"error","@message":"Error: no","diagnostic":{"severity":"error","summary":"no","detail":"it is broken","range":{"filename":"main.tf","start":{"line":3,"column":1,"byte":1}}},"type":"diagnostic"}
plain text
`

func TestEvents(t *testing.T) {
	for size := 1; size < 50; size += 7 {
		log := newRunLog(newMasks(nil), 1<<20, nil)
		e := &events{log: log}
		for rest := applied; rest != ""; {
			n := min(size, len(rest))
			must.Get(e.Write([]byte(rest[:n])))(t)
			rest = rest[n:]
		}
		e.end()
		log.end()
		want := "terraform_data.a: Plan to replace\nPlan: 1 to add, 0 to change, 1 to destroy.\nERROR: no: it is broken (main.tf:3)\nplain text\n"
		if got := string(log.bytes()); got != want {
			t.Errorf("pieces of %d: log %s", size, got)
		}
		if diff := cmp.Diff(e.counts, &lifecycle.Counts{Add: 1, Remove: 1, Replace: 1}); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(e.errs, []string{"no: it is broken (main.tf:3)"}); diff != "" {
			t.Error(diff)
		}
	}
}

// A line without an end is not kept in memory.
func TestEventsLong(t *testing.T) {
	log := newRunLog(newMasks(nil), 100, nil)
	e := &events{log: log}
	for range 5 {
		must.Get(e.Write(make([]byte, maxEvent/2)))(t)
	}
	if len(e.partial) > maxEvent {
		t.Errorf("%d bytes are kept", len(e.partial))
	}
	must.Get(e.Write([]byte("\nnext\n")))(t)
	log.end()
	if !strings.HasSuffix(string(log.bytes()), "\nnext\n") {
		t.Error("the next line is lost")
	}
}

// Repeated errors of a provider are not all kept in memory.
func TestManyErrors(t *testing.T) {
	e := &events{log: newRunLog(newMasks(nil), 100, nil)}
	line := `{"@message":"Error","diagnostic":{"severity":"error","summary":"` + strings.Repeat("x", 100<<10) + `"}}` + "\n"
	for range 100 {
		must.Get(e.Write([]byte(line)))(t)
	}
	if n := len(strings.Join(e.errs, "")); n == 0 || n > 100<<10 {
		t.Errorf("%d bytes of errors are kept", n)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(applied))
	f.Fuzz(func(t *testing.T, b []byte) {
		log := newRunLog(newMasks(nil), 1<<16, nil)
		e := &events{log: log}
		must.Get(e.Write(b))(t)
		e.end()
		if text := plainError(newMasks(nil), e.errs...); len(text) > maxError || !utf8.ValidString(text) {
			t.Errorf("error %q", text)
		}
	})
}
