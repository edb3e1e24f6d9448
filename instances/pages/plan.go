// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/plantext"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// planBody is a plan as a page shows it: completely, or not at all.
type planBody struct {
	Pieces  []planPiece
	Missing string // why it is not shown; "": it is shown
	Closed  bool   // not shown, so it cannot be approved
}

// planPiece is a sequence of lines with the same effect.
type planPiece struct{ Kind, Text string }

// plan reads the plan of a run; nil: there is none, or the caller may not see it.
func (s *backend) plan(r *site.Request, id string, n int) (*planBody, error) {
	to := &wholeWriter{max: plantext.Max}
	err := s.text(r, fmt.Sprintf("instances/%s/runs/%d/plan", id, n), to)
	if no, ok := errors.AsType[*refusedError](err); ok {
		switch no.status {
		case http.StatusNotFound, http.StatusForbidden:
			return nil, nil //nolint:nilnil // the page does without
		case http.StatusNotImplemented:
			return &planBody{Missing: "The plan is not kept here. Read it where it was made before you approve it."}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if to.over {
		return &planBody{Missing: "The plan is too large to be shown in full, and a plan that cannot be read in full cannot be approved.", Closed: true}, nil
	}
	return &planBody{Pieces: planPieces(plainLog(to.Bytes()))}, nil
}

// planPieces groups the lines of a plan. Each piece is a slice of the text, without a copy.
func planPieces(text string) []planPiece {
	text = strings.TrimRight(text, "\n")
	var all []planPiece
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
		all = append(all, planPiece{kind, line})
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
