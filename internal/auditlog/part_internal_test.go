// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

var testTag = AuditTag{Day: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), ID: "0123456789abcdef", Part: 2}

// hostile returns a record that tries to be another line, or a formula.
func hostile() Record {
	return Record{Time: time.Date(2026, 11, 22, 12, 0, 0, 1, time.UTC), Action: "=1+1", Address: "a\n{\"n\":9}\r\n\"b\"", Subject: "\u202e\x00<b>", Detail: "-x", Status: 201}
}

// TestSafeRecord stores untrusted texts in a form that can be shown, within a bound.
func TestSafeRecord(t *testing.T) {
	var r Record
	for key, foreign := range map[string]string{
		"subject": "anna\u202e\x00", "user_agent": "tofu\x1b[2J\n{}", "detail": "\xff" + strings.Repeat("\u200b", maxField), "action": "yank",
	} {
		texts := r.texts()
		r.setField(texts[:], 0, slog.String(key, foreign))
		cloneTexts(texts[serverTexts:])
	}
	if len(r.Detail) > maxField || strings.Trim(r.Detail, "\ufffd") != "…" {
		t.Errorf("detail %q", r.Detail)
	}
	r.Detail = ""
	must.Match(t, "value", r, Record{Subject: "anna\ufffd\ufffd", UserAgent: "tofu\ufffd[2J {}", Action: "yank"})
}

// TestPart encodes a part and parses it, and parses one of an okara that chained parts.
func TestPart(t *testing.T) {
	want := []*Entry{{testTag.ID, 7, hostile()}, {testTag.ID, 8, Record{Action: "yank"}}}
	text := partText(t, want)
	old := `{"format":1,"tag":"` + testTag.String() + `","first":7,"before":{"tag":"audit-20261122-0123456789abcdef-0001","digest":"sha256:` + strings.Repeat("0", 64) + `"},"others":[{"tag":"audit-20261121-ffffffffffffffff-0001","n":3}]}` + "\n"
	_, lines, _ := strings.Cut(string(text), "\n")
	for _, text := range []string{string(text), old + lines} {
		got, err := parsePart(testTag, []byte(text))
		if diff := cmp.Diff(got, want); diff != "" || err != nil {
			t.Errorf("%v, got - want +:\n%s", err, diff)
		}
	}
}

// partText returns a part as a process writes it.
func partText(t testing.TB, entries []*Entry) []byte {
	t.Helper()
	text := encodeHeader(testTag, entries[0].N)
	for _, e := range entries {
		line := must.Get(encodeEntry(e.N, e.Record))(t)
		text = append(text, line...)
	}
	return text
}

// TestPartRefused has parts that no process writes.
func TestPartRefused(t *testing.T) {
	head := func(format string, args ...any) string {
		return fmt.Sprintf(`{"format":1,"tag":%q,%s}`, testTag, fmt.Sprintf(format, args...)) + "\n"
	}
	for name, text := range map[string]string{
		"nothing":            "",
		"cut off":            head(`"first":1`) + `{"n":1`,
		"no JSON":            "x\n",
		"another format":     strings.Replace(head(`"first":1`), `"format":1`, `"format":2`, 1),
		"another tag":        strings.Replace(head(`"first":1`), "-0002", "-0001", 1),
		"a line that is bad": head(`"first":1`) + `{"n":1,"action":[]}` + "\n",
		"nested":             head(`"first":1`) + `{"n":1,"x":` + strings.Repeat("[", 20_000) + "}\n",
		"a long line":        head(`"first":1`) + `{"n":1,"action":"` + strings.Repeat("x", maxLine) + "\"}\n",
		"a long first line":  head(`"first":1,"x":%q`, strings.Repeat("x", maxHeader)),
		"too many lines":     head(`"first":1`) + manyLines(maxLines+1),
		"too large":          head(`"first":1`) + strings.Repeat(" ", MaxAuditPart) + "\n",
	} {
		if _, err := parsePart(testTag, []byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

func manyLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"n\":%d}\n", i+1)
	}
	return b.String()
}

// FuzzPart: an accepted part is accepted again after encoding.
func FuzzPart(f *testing.F) {
	f.Add(partText(f, []*Entry{{N: 1, Record: hostile()}, {N: 2, Record: Record{Status: -1}}}))
	f.Add([]byte(`{"format":1,"tag":"audit-20261122-0123456789abcdef-0002","first":1}` + "\n" + `{"n":1}` + "\n"))
	f.Add([]byte("{}\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := parsePart(testTag, text)
		if err != nil || len(entries) == 0 {
			return
		}
		for _, e := range entries {
			if line, err := encodeEntry(e.N, e.Record); err != nil || len(line) > maxLine {
				return // it may be longer than before
			}
		}
		again := partText(t, entries)
		if len(again) > MaxAuditPart {
			return
		}
		if got, err := parsePart(testTag, again); err != nil || len(got) != len(entries) {
			t.Errorf("%q is taken, and %q is not: %v", text, again, err)
		}
	})
}

// TestHandler copies records on their way to the audit log file, unchanged.
func TestHandler(t *testing.T) {
	var file bytes.Buffer
	p := newProcess(t, queue(t, ocitest.Direct{Handler: http.NotFoundHandler()}), nil, nil)
	log := slog.New(p.Handler(slog.NewJSONHandler(&file, nil)))
	long := strings.Repeat("ä", maxField)
	log.With("mode", "static").Info("decision", "action", "read", "address", long, "decision", "denied", "unknown", "x")
	log.WithGroup("g").Info("decision", "action", "list")
	log.Info("change", "action", "publish", "version", "1.0.0", "status", 201)
	log.Info("depot", "action", "mirror", "entry", "acme/dns", "version", "1.2.3", "reason", "newer", "error", "")
	log.Debug("change")
	if n := strings.Count(file.String(), "\n"); n != 4 || !strings.Contains(file.String(), long) {
		t.Errorf("the file has %d lines:\n%s", n, file.String())
	}
	f := p.Find(t.Context(), Query{Decisions: true})
	if f.Total != 2 || f.Entries[0].Action != "list" || f.Entries[1].Mode != "static" || f.Entries[1].Decision != "denied" || len(f.Entries[1].Address) > maxField {
		t.Errorf("decisions %+v", f.Entries)
	}
	changes, waiting := p.own.entriesAfter(0)
	if waiting != 2 || changes[0].Status != 201 || changes[0].N != 1 || changes[1].Kind != "depot" || changes[1].Address != "acme/dns" || changes[1].Detail != "newer" {
		t.Errorf("changes %+v", changes)
	}
	for i := range MaxDecisions + 7 {
		log.Info("decision", "address", fmt.Sprint(i))
	}
	all := p.decisions.allDecisions()
	if len(all) != MaxDecisions || all[0].Address != fmt.Sprint(MaxDecisions+6) || all[MaxDecisions-1].Address != "7" {
		t.Errorf("%d decisions, from %s to %s", len(all), all[0].Address, all[len(all)-1].Address)
	}
}

// TestQuery tests each filter alone and at its bounds.
func TestQuery(t *testing.T) {
	at := time.Date(2026, 11, 22, 23, 59, 0, 0, time.UTC)
	e := &Entry{Record: Record{Time: at, Action: "publish", Kind: "module", Address: "net/vpc/aws", Decision: "allowed", Subject: "Anna", Issuer: "https://issuer.example.com", Mode: "oidc", ClientIP: "192.0.2.7"}}
	for query, want := range map[string]bool{
		"": true, "actor=anna": true, "actor=issuer.example": true, "actor=oidc": true, "actor=192.0.2": true, "actor=otto": false,
		"action=publish": true, "action=pub": false, "kind=module": true, "kind=state": false, "address=VPC": true, "address=vpn": false,
		"decision=allowed": true, "decision=denied": false, "since=2026-11-22": true, "since=2026-11-23": false, "until=2026-11-22": true, "until=2026-11-21": false,
		"since=2026-11-22T23:59:00Z": true, "until=2026-11-22T23:59:00Z": false, "until=2026-11-23T00:59:01%2B01:00": true,
		"action=publish&kind=module&address=net&actor=anna": true, "action=publish&kind=state": false,
	} {
		v := must.Get(url.ParseQuery(query))(t)
		if q, err := ParseQuery(v); err != nil || q.matchesEntry(e) != want {
			t.Errorf("%q fits: %t, %v", query, !want, err)
		}
	}
	for _, query := range []string{"what=x", "decision=maybe", "since=yesterday", "until=2026-13-01", "page=0", "page=x", "page=101", "actor=" + strings.Repeat("x", maxWord+1)} {
		v, _ := url.ParseQuery(query)
		if _, err := ParseQuery(v); err == nil {
			t.Errorf("%q: no error", query)
		}
	}
}

// TestExport writes formulas as text, so that a spreadsheet does not run them, and loses
// nothing.
//
// Shows: pages 8
func TestExport(t *testing.T) {
	all := []*Entry{{"0123456789abcdef", 1, hostile()}}
	for _, first := range []string{"=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\tx", "\rx", "x=1", ""} {
		all = append(all, &Entry{Record: Record{Address: first}})
	}
	each := func(do func(*Entry) error) error { return eachMatching(all, Query{}, do) }
	var text bytes.Buffer
	must.Succeed(t, WriteCSV(&text, each))
	if !strings.HasPrefix(text.String(), `"time","request_id",`) || strings.Contains(text.String(), `,=`) || strings.Contains(text.String(), `"=`) {
		t.Errorf("CSV:\n%s", text.String())
	}
	rows, err := csv.NewReader(&text).ReadAll()
	if err != nil || len(rows) != len(all)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, want := range []string{"a\n{\"n\":9}\n\"b\"", "'=cmd|' /C calc'!A0", "'+1", "'-1", "'@SUM(1)", "'\tx", "'\rx", "x=1", ""} { // the reader makes one newline of CR LF
		if got := rows[i+1][4]; got != want {
			t.Errorf("row %d: %q, want %q", i, got, want)
		}
	}
	text.Reset()
	must.Succeed(t, WriteJSONLines(&text, each))
	dec := json.NewDecoder(&text)
	for i, want := range all {
		got := &Entry{}
		must.Succeed(t, dec.Decode(got))
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("line %d, got - want +:\n%s", i, diff)
		}
	}
}

// TestOlder has more entries than memory holds: Each reads the dropped ones again.
func TestOlder(t *testing.T) {
	r := queue(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	p := newProcess(t, r, nil, func() time.Time { return now })
	const n = maxHeld + maxLines + 5
	for i := range n {
		p.change(now, fmt.Sprint(i))
		if i%10_000 == 0 {
			must.Succeed(t, p.own.writeParts(t.Context()))
		}
	}
	must.Succeed(t, p.own.writeParts(t.Context()))
	other := newProcess(t, r, nil, func() time.Time { return now })
	if v := other.look(t); v.Older == 0 || len(v.Entries) > maxHeld || v.Unreadable != 0 {
		t.Fatalf("%d parts fell out of memory, %d entries are there", v.Older, len(v.Entries))
	}
	seen := map[string]bool{}
	if err := other.Each(t.Context(), Query{}, func(e *Entry) error { seen[e.Address] = true; return nil }); err != nil || len(seen) != n {
		t.Errorf("%d of %d were read, %v", len(seen), n, err)
	}
}
