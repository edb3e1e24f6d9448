// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/must"
)

// Shows: crash K13
func TestRunLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	file := must.Get(os.Create(name))(t)
	defer file.Close()
	l := newRunLog(newMasks([]string{"a secret value"}), 1000, file)
	l.logLine("begin")
	for i := range 100 {
		l.logLine("line %d with é and a sec", i)
		must.Get(l.Write([]byte("ret value")))(t)
	}
	l.logLine("the end")
	l.endLog()
	got := string(l.bytes())
	if len(got) > 1100 || !utf8.ValidString(got) || !strings.HasPrefix(got, "begin\n") || !strings.HasSuffix(got, "the end\n") {
		t.Errorf("log of %d bytes: %s", len(got), got)
	}
	if !strings.Contains(got, "bytes are omitted here") {
		t.Errorf("nothing says that the middle is cut: %s", got)
	}
	if b, err := os.ReadFile(name); err != nil || len(b) != 1000 || !strings.HasPrefix(string(b), "begin\n") {
		t.Errorf("file of %d bytes, %v", len(b), err)
	}
}

// TestRunLogWrites writes the same text in pieces of different sizes.
func TestRunLogWrites(t *testing.T) {
	text := strings.Repeat("0123456789", 50)
	for _, limit := range []int{40, 41, 499, 500, 501} {
		var first string
		for size := 1; size < 600; size += 37 {
			l := newRunLog(newMasks(nil), limit, nil)
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				must.Get(l.Write([]byte(rest[:n])))(t)
				rest = rest[n:]
			}
			l.endLog()
			got := string(l.bytes())
			if first == "" {
				first = got
			}
			if got != first || l.size() != 500 {
				t.Fatalf("limit %d, pieces of %d: %q, want %q", limit, size, got, first)
			}
			if limit >= 500 && got != text {
				t.Errorf("limit %d: %q", limit, got)
			}
			if !strings.HasPrefix(text, got[:limit/2]) || !strings.HasSuffix(text, got[len(got)-limit/2:]) {
				t.Errorf("limit %d: %q", limit, got)
			}
		}
	}
}

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
		log.endLog()
		want := "terraform_data.a: Plan to replace\nPlan: 1 to add, 0 to change, 1 to destroy.\nERROR: no: it is broken (main.tf:3)\nplain text\n"
		if got := string(log.bytes()); got != want {
			t.Errorf("pieces of %d: log %s", size, got)
		}
		must.Match(t, "value", e.counts, &lifecycle.Counts{Add: 1, Remove: 1, Replace: 1})
		must.Match(t, "value", e.errs, []string{"no: it is broken (main.tf:3)"})
	}
}

// notedByOpenTofu and notedByTerraform are what 1.12.6 and 1.11.4 print of one change, shortened.
const (
	noted = `{"@message":"b: Plan to remove","change":{"resource":{"addr":"b"},"action":"remove"},"type":"planned_change"}
{"@message":"c: Plan to import","change":{"resource":{"addr":"c"},"action":"import","importing":{"id":"abc"}},"type":"planned_change"}
{"@message":"a: Plan to update","change":{"resource":{"addr":"a"},"action":"update","importing":{"id":"x"}},"type":"planned_change"}
`
	warned = `{"@message":"Warning: Check block assertion failed","diagnostic":{"severity":"warning","summary":"Check block assertion failed","detail":"must be five,\n2","snippet":{"context":"check \"ok\"","code":"x"}},"type":"diagnostic"}
`
	notedByOpenTofu  = noted + `{"@message":"Plan","changes":{"add":0,"change":1,"import":2,"remove":0,"forget":1,"operation":"plan"},"type":"change_summary"}` + "\n" + warned
	notedByTerraform = noted + `{"@message":"Plan","changes":{"add":0,"change":1,"import":2,"remove":0,"operation":"plan"},"type":"change_summary"}` + "\n" + warned
)

// TestNotes: what a plan forgets and imports is counted and named, and failed checks are told.
func TestNotes(t *testing.T) {
	for _, output := range []string{notedByOpenTofu, notedByTerraform} {
		e := &events{log: newRunLog(newMasks(nil), 1<<20, nil)}
		must.Get(e.Write([]byte(output)))(t)
		must.Match(t, "counts", e.counts, &lifecycle.Counts{Change: 1, Import: 2, Forget: 1})
		must.Match(t, "notes", e.notes, []lifecycle.Note{{Kind: "forget", Text: "b"}, {Kind: "import", Text: "c"}, {Kind: "import", Text: "a"}, {Kind: "check", Text: `"ok": must be five, 2`}})
		applied := lifecycle.JoinNotes(e.notes, []lifecycle.Note{{Kind: "import", Text: "c"}, {Kind: "check", Text: "other"}})
		must.Match(t, "after the apply", applied, []lifecycle.Note{{Kind: "forget", Text: "b"}, {Kind: "import", Text: "c"}, {Kind: "import", Text: "a"}, {Kind: "check", Text: "other"}})
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
	log.endLog()
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

// Shows: pages 8
// Shows: platform-attacks 15
// Shows: instances 8
func TestMasks(t *testing.T) {
	secret := "p@ss w<rd\"of\\kéys+/="
	lines := "-----BEGIN KEY-----\nMIIEvgIBADANBgkq\r\nshort\n-----END KEY-----\n"
	quoted := must.Get(json.Marshal(secret))(t)
	twice := must.Get(json.Marshal(string(quoted)))(t)
	m := newMasks([]string{secret, lines, "tiny", "abcdefgh", "efghijkl", "481-516\n902-334\n", "p\"4s<1\nfour-two", "alpha\nbravo"})
	for name, text := range map[string]string{
		"plain":                  "x " + secret + " y",
		"JSON":                   `{"a":` + string(quoted) + `}`,
		"JSON in JSON":           string(twice),
		"a short line":           "+   481-516\n",
		"only short lines":       "    bravo\n",
		"a short line in JSON":   `"p\"4s\u003c1\nfour"`,
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
		got := m.maskText(text)
		if !strings.Contains(got, masked) {
			t.Errorf("%s: %q stays", name, got)
		}
		for _, part := range []string{secret, "MIIEvgIBADANBgkq", "481-516", "bravo", "4s", "ss w", "abcdefgh", "ijkl", url.QueryEscape(secret)} {
			if strings.Contains(got, part) {
				t.Errorf("%s: %q has %q", name, got, part)
			}
		}
	}
	for _, text := range []string{"tiny short", "", "abcdefg", "é"} {
		must.Equal(t, text+": became", m.maskText(text), text)
	}
	must.Equal(t, "without values", newMasks(nil).maskText("anything"), "anything")
}

// TestMasksAtOnce holds back only a value's possible beginning.
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

// FuzzMasks writes a value in any pieces: it is never in the output.
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
		if b.String() != m.maskText(text) {
			t.Errorf("in pieces %q, at once %q", b.String(), m.maskText(text))
		}
		if !strings.Contains(b.String(), masked) {
			t.Errorf("%q: nothing is masked in %q", value, b.String())
		}
		// Text beside a mask may happen to form the value; between masks it may not.
		for part := range strings.SplitSeq(b.String(), masked) {
			if strings.Contains(part, value) {
				t.Errorf("%q is still in %q", value, b.String())
			}
		}
	})
}

// TestMain lets the test program act as the tool, and as okara, which starts it.
func TestMain(m *testing.M) {
	commands := map[string]func(args []string) error{sandbox.ExecCommand: execTestCommand}
	for _, name := range []string{"init", "plan", "apply", "show"} {
		commands[name] = runtest.Tool(name)
	}
	runtest.Main(m, commands)
}

// execTestCommand acts as the command by which a run starts the tool.
func execTestCommand(args []string) error {
	var o sandbox.ExecOptions
	line, err := runtest.Parse(args, map[string]any{
		"base": &o.Base, "dir": &o.Dir, "uid": &o.UID, "gid": &o.GID, "memory": &o.Memory, "file-size": &o.FileSize, "processes": &o.Processes,
	})
	if err != nil {
		return err
	}
	return sandbox.Exec(o, line, os.Environ())
}
