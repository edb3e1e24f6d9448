// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/text"
)

// maxEvent bounds a line of the tool that is parsed as an event; a longer one is only logged.
const maxEvent = 1 << 20

// events parses the output of the tool with -json: one object per line
// (https://opentofu.org/docs/internals/machine-readable-ui/).
type events struct {
	log     *runLog
	partial []byte
	long    bool // the current line is longer than maxEvent

	counts *lifecycle.Counts // of the last summary
	drift  lifecycle.Counts
	// outputs reports what the events say of outputs: nothing, that none changes, or that some do.
	outputs outputChange
	again   int // resources that are replaced
	notes   []lifecycle.Note
	forgets int      // resources that the plan forgets
	left    []string // addresses of resources that the tool stops managing and does not destroy
	errs    []string // diagnostics of severity error: the first maxErrors, each clipped
}

// maxErrors bounds how many errors of a command are kept; the log has all of them.
const maxErrors = 20

type outputChange uint8

const (
	outputsUnknown outputChange = iota
	outputsSame
	outputsChange
)

// event is the part of an event that is decoded.
type event struct {
	Message string `json:"@message"`
	Type    string `json:"type"`
	Change  struct {
		Action   string `json:"action"`
		Resource struct {
			Address string `json:"addr"`
		} `json:"resource"`
		Importing json.RawMessage `json:"importing"`
	} `json:"change"`
	Changes *struct {
		Add       int    `json:"add"`
		Change    int    `json:"change"`
		Remove    int    `json:"remove"`
		Import    int    `json:"import"`
		Forget    int    `json:"forget"` // of OpenTofu
		Operation string `json:"operation"`
	} `json:"changes"`
	Outputs map[string]struct {
		Action string `json:"action"`
	} `json:"outputs"`
	Diagnostic *diagnostic `json:"diagnostic"`
}

type diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Address  string `json:"address"`
	Snippet  struct {
		Context string `json:"context"`
	} `json:"snippet"`
	Range *struct {
		Filename string `json:"filename"`
		Start    struct {
			Line int `json:"line"`
		} `json:"start"`
	} `json:"range"`
}

// Write implements [io.Writer].
func (e *events) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		p = rest
		if len(e.partial)+len(line) > maxEvent {
			e.long = true
		}
		if e.long {
			_, _ = e.log.Write(append(e.partial, line...))
			e.partial = e.partial[:0]
		} else {
			e.partial = append(e.partial, line...)
		}
		if !whole {
			break
		}
		if e.long {
			e.log.logLine("")
		} else {
			e.handleLine(e.partial)
		}
		e.partial = e.partial[:0]
		e.long = false
	}
	return n, nil
}

// end handles a last line without a newline.
func (e *events) end() {
	if len(e.partial) > 0 {
		e.handleLine(e.partial)
		e.partial = nil
	}
}

func (e *events) handleLine(line []byte) {
	var ev event
	if json.Unmarshal(line, &ev) != nil || ev.Message == "" {
		e.log.logLine("%s", line) // output of a provider, or of a tool that crashed
		return
	}
	switch {
	case ev.Diagnostic != nil:
		e.logDiagnostic(ev.Diagnostic)
		return
	case ev.Type == "version" || ev.Type == "log":
		return
	case ev.Changes != nil:
		e.counts = &lifecycle.Counts{
			Add: ev.Changes.Add, Change: ev.Changes.Change, Remove: ev.Changes.Remove, Replace: min(e.again, ev.Changes.Remove),
			Import: ev.Changes.Import, Forget: max(ev.Changes.Forget, e.forgets),
		}
	case ev.Type == "outputs":
		e.outputs = max(e.outputs, outputsSame)
		for _, o := range ev.Outputs {
			if o.Action != "" && o.Action != "noop" {
				e.outputs = outputsChange
			}
		}
		return // their values are in the result
	case ev.Type == "planned_change":
		e.addPlanned(ev)
	case ev.Type == "resource_drift":
		switch ev.Change.Action {
		case "delete":
			e.drift.Remove++
		case "create":
			e.drift.Add++
		default:
			e.drift.Change++
		}
	}
	e.log.logLine("%s", ev.Message)
}

func (e *events) addPlanned(ev event) {
	address := ev.Change.Resource.Address
	switch {
	case ev.Change.Action == "remove":
		if e.forgets++; len(e.left) < lifecycle.MaxLeft {
			e.left = append(e.left, text.Clip(text.Line(address), lifecycle.MaxLeftAddress))
		}
		e.addNote(lifecycle.NoteForget, address)
	case ev.Change.Action == "replace":
		e.again++
	}
	if ev.Change.Importing != nil {
		e.addNote(lifecycle.NoteImport, address)
	}
}

func (e *events) addNote(kind, words string) {
	if len(e.notes) < lifecycle.MaxNotes {
		e.notes = append(e.notes, lifecycle.Note{Kind: kind, Text: text.Excerpt(words)})
	}
}

func (e *events) logDiagnostic(d *diagnostic) {
	words := d.text()
	if d.Severity == "warning" && d.Summary == "Check block assertion failed" {
		e.addNote(lifecycle.NoteCheck, strings.TrimPrefix(d.Snippet.Context, "check ")+": "+d.Detail)
	}
	e.log.logLine("%s: %s", strings.ToUpper(d.Severity), words)
	if d.Severity == "error" && len(e.errs) < maxErrors {
		e.errs = append(e.errs, text.Clip(words, 4*maxError))
	}
}

func (d *diagnostic) text() string {
	var b strings.Builder
	b.WriteString(d.Summary)
	if d.Detail != "" {
		b.WriteString(": " + d.Detail)
	}
	if d.Range != nil {
		fmt.Fprintf(&b, " (%s:%d)", d.Range.Filename, d.Range.Start.Line)
	}
	if d.Address != "" {
		fmt.Fprintf(&b, " [%s]", d.Address)
	}
	return b.String()
}

func (e *events) isStalePlan() bool {
	return slices.ContainsFunc(e.errs, func(message string) bool {
		return strings.HasPrefix(message, "Saved plan is stale") || strings.HasPrefix(message, "Saved plan does not match")
	})
}

// isDestroyed reports whether a destroy left only what has destroy = false (OpenTofu 1.12).
func (e *events) isDestroyed() bool {
	return len(e.errs) == 1 && strings.HasPrefix(e.errs[0], "Destroy was successful but left behind forgotten instances")
}

// maxError bounds the error of a run, in bytes.
const maxError = 1 << 10

// plainError joins texts to one paragraph without control characters, up to 1 KiB.
func plainError(m *masks, texts ...string) string {
	var parts []string
	for _, t := range texts {
		if t = text.Excerpt(m.maskText(t)); t != "" {
			parts = append(parts, t)
		}
	}
	return text.Clip(strings.Join(parts, "; "), maxError)
}

// lastLines keeps the end of a command's output.
type lastLines struct {
	log  io.Writer
	keep int // bytes; 0: enough for an error
	tail []byte
}

// Write implements [io.Writer].
func (l *lastLines) Write(p []byte) (int, error) {
	l.tail = append(l.tail, p...)
	if over := len(l.tail) - cmp.Or(l.keep, 4*maxError); over > 0 {
		l.tail = l.tail[over:]
	}
	return l.log.Write(p)
}

// printedError returns the error that the tool printed, without its frame.
func (l *lastLines) printedError() string {
	tail := string(l.tail)
	if _, after, ok := strings.Cut(tail, "Error: "); ok {
		tail = after
	}
	return strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(tail)
}
