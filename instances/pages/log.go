// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/plantext"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// logBody shows the end of a run's log as text, and the source of what follows.
type logBody struct {
	Title  string
	Source string // of the stream, below Up
	Seen   string // query of the stream: the state that the page shows
	Text   string
	Cut    bool   // earlier text is not shown
	Whole  string // the command that prints all of it; "": none
	Live   bool   // the run is not over
	Progress
}

// Progress is how far a run has come, according to the messages of the tool.
type Progress struct {
	Done, Total int // resources; Total 0: there is no plan yet
}

// logTail is how much of a log a page shows, in bytes. The API has all of it.
const logTail = 64 << 10

// readRunLog reads the log of a run; nil: this server has no logs.
func (s *backend) readRunLog(r *site.Request, id string, u api.Run) (*logBody, error) {
	path := "instances/" + id + "/runs/" + strconv.Itoa(u.N) + "/log"
	b := &logBody{Title: fmt.Sprintf("Log of run %d", u.N), Whole: "okara instance logs", Source: "../api/v1/" + path, Live: u.Result == ""}
	to := &tailWriter{}
	err := s.copyText(r, path, to)
	if no, ok := errors.AsType[*refusedError](err); ok {
		switch no.status {
		case http.StatusNotFound: // nothing has been written yet
			return b, nil
		case http.StatusNotImplemented, http.StatusForbidden:
			return nil, nil //nolint:nilnil // the page does without
		}
	}
	if err != nil {
		return nil, err
	}
	tail := to.keptTail()
	if b.Live { // the last line is shown once it is complete
		tail = tail[:bytes.LastIndexByte(tail, '\n')+1]
	}
	b.Text = plainLog(tail)
	b.Cut = to.dropped
	b.Progress = to.Progress
	return b, nil
}

// finished matches messages of the tool, worded as in its -json output
// (https://opentofu.org/docs/internals/machine-readable-ui/). A module can print the same
// words into its log, which only moves the progress bar. The script in
// web/site/assets/app.js recognizes the same ones.
var finished = text.Pattern(`: (?:Creation|Modifications|Destruction) complete`)

// ansi matches the sequences by which programs color a terminal (ECMA-48, 5.4).
var ansi = text.Pattern(`\x1b\[[0-?]*[ -/]*[@-~]`)

func plainLog(b []byte) string { return text.Block(string(ansi().ReplaceAll(b, nil))) }

func (p *Progress) updateFromLine(line []byte) {
	if c := plantext.ReadCounts(line); c != nil {
		*p = Progress{}
		for _, n := range []int{c.Add, c.Change, c.Remove} { // a number that overflows is no plan
			p.Total += min(max(n, 0), 1<<20)
		}
	} else if p.Done < p.Total && finished().Match(line) {
		p.Done++
	}
}

// tailWriter keeps the end of what is written, and reads the progress from all of it.
type tailWriter struct {
	Progress
	buf     bytes.Buffer
	partial []byte
	dropped bool
}

// maxProgressLine bounds a line that is read; longer ones are not messages of the tool.
const maxProgressLine = 4 << 10

func (t *tailWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, more, whole := bytes.Cut(rest, []byte("\n"))
		if len(t.partial) < maxProgressLine {
			t.partial = append(t.partial, line...)
		}
		if rest = more; whole {
			t.updateFromLine(t.partial)
			t.partial = t.partial[:0]
		}
	}
	t.buf.Write(p)
	if over := t.buf.Len() - 2*logTail; over > 0 {
		t.buf.Next(over + logTail)
		t.dropped = true
	}
	return len(p), nil
}

// keptTail returns the end of the text, from the beginning of a line.
func (t *tailWriter) keptTail() []byte {
	b := t.buf.Bytes()
	if len(b) > logTail {
		b = b[len(b)-logTail:]
		t.dropped = true
	}
	if _, rest, ok := bytes.Cut(b, []byte("\n")); ok && t.dropped {
		b = rest
	}
	return b
}

// planBody is a plan as a page shows it: completely, or not at all.
type planBody struct {
	Changes *site.Changes // nil: only the text is shown
	Here    string        // of the page, where it can be shown by resource; "": it cannot
	Pieces  []site.Piece
	Missing string // why it is not shown; "": it is shown
	Closed  bool   // not shown, so it cannot be approved
}

// newPlanBody shows a plan by resource or, if it is asked for or safer, as the tool wrote it.
func newPlanBody(r *site.Request, text string) *planBody {
	parts, counts := plantext.Split(text)
	b := &planBody{}
	if parts != nil {
		b.Here = path.Base(r.URL.Path)
	}
	if parts == nil || r.URL.Query().Get("as") == "text" {
		b.Pieces = planPieces(text)
		return b
	}
	b.Changes = &site.Changes{}
	b.Changes.Counts, b.Changes.Words = countMarks(counts), counts.Words(false)
	for _, p := range parts {
		b.Changes.Rows = append(b.Changes.Rows, site.Change{Effect: p.Effect, Name: p.Name, Note: p.Note, Pieces: planPieces(p.Text)})
	}
	slices.SortStableFunc(b.Changes.Rows, func(a, b site.Change) int { return site.CompareEffects(a.Effect, b.Effect) })
	return b
}

// readRunPlan reads the plan of a run; nil: there is none, or the caller may not see it.
func (s *backend) readRunPlan(r *site.Request, id string, n int) (*planBody, error) {
	to := &wholeWriter{max: plantext.Max}
	err := s.copyText(r, fmt.Sprintf("instances/%s/runs/%d/plan", id, n), to)
	if no, ok := errors.AsType[*refusedError](err); ok {
		switch no.status {
		case http.StatusNotFound, http.StatusForbidden:
			return nil, nil //nolint:nilnil // the page does without
		case http.StatusNotImplemented:
			return &planBody{Missing: "The plan is not kept here. Read it where it was created before you approve it."}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if to.over {
		return &planBody{Missing: "The plan is too large to be shown in full, and a plan that cannot be read in full cannot be approved.", Closed: true}, nil
	}
	return newPlanBody(r, plainLog(to.Bytes())), nil
}

// planPieces groups the lines of a plan. Each piece is a slice of the text, without a copy.
func planPieces(text string) []site.Piece {
	text = strings.TrimRight(text, "\n")
	var all []site.Piece
	// bounds of the current piece
	from := 0
	to := 0
	for line := range strings.Lines(text) {
		kind := plantext.Effect(line)
		if n := len(all); n > 0 && all[n-1].Kind == kind {
			to += len(line)
			all[n-1].Text = text[from:to]
			continue
		}
		from = to
		to = to + len(line)
		all = append(all, site.Piece{Kind: kind, Text: line})
	}
	return all
}

// wholeWriter stores what is written up to a maximum, and reports when that is exceeded.
type wholeWriter struct {
	bytes.Buffer
	max  int
	over bool
}

func (w *wholeWriter) Write(p []byte) (int, error) {
	if w.over = w.over || w.Len()+len(p) > w.max; w.over {
		w.Reset()
		return len(p), nil
	}
	return w.Buffer.Write(p)
}
