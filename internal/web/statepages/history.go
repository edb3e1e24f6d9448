// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// historyRows is the number of versions on a page of the history: each costs a request.
const historyRows = 50

// historyBody is a page with the versions of a workspace, newest first.
type historyBody struct {
	Name, Workspace string
	Tabs            []site.Tab
	Rows            []historyRow
	Total           int
	Jumps           bool   // a lock was taken over
	Newer, Older    string // pages, with their queries; "": none
	Replicas        replicasBody
}

type historyRow struct {
	site.Link
	Written        site.Timestamp
	Serial         uint64
	Stored         int64
	Who, Why, Tool string
	Marks          []site.Mark
	Compare        string // comparison with the previous version, below Up
	Run            string // URL of the run that wrote it; "": none
}

// showHistory lists the versions of a workspace.
func (s *versions) showHistory(r *site.Request) (*site.Page, error) {
	p, err := s.versionAt(r)
	if err != nil {
		return nil, err
	}
	body := historyBody{Name: p.name, Workspace: text.Block(p.workspace), Total: len(p.Numbers)}
	if len(p.Numbers) > 0 {
		body.Tabs = versionTabs(p, &states.VersionView{}, "history")
	}
	first := 0
	if before, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64); err == nil {
		for first < len(p.Numbers) && p.Numbers[first] >= before {
			first++
		}
	}
	last := min(first+historyRows, len(p.Numbers))
	versions, err := s.states.Versions(r.Context(), p.name, p.workspace, p.Numbers[first:last])
	if err != nil {
		return nil, noState(err, p.name)
	}
	body.Replicas = s.replicas(r, p)
	for i, v := range versions {
		row := s.historyRow(p, v)
		if i+1 < len(versions) && states.OtherTool(versions[i+1].Tool, v.Tool) {
			row.Marks = append(row.Marks, site.Mark{Text: "after OpenTofu", Kind: "bad"})
		}
		row.Marks = append(row.Marks, replicaMarks(body.Replicas.Rows, v.N)...)
		body.Rows = append(body.Rows, row)
		body.Jumps = body.Jumps || slices.Contains(row.Marks, takeoverMark())
	}
	if first > 0 {
		body.Newer = "?"
		if first > historyRows {
			body.Newer = fmt.Sprintf("?before=%d", p.Numbers[first-historyRows-1])
		}
	}
	if last < len(p.Numbers) {
		body.Older = fmt.Sprintf("?before=%d", p.Numbers[last-1])
	}
	return &site.Page{
		Template: "state_history.html", Title: "History of " + body.Workspace, Body: body, Command: p.stateCommand("history"),
		Crumbs: []site.Link{{Text: "States", Href: "states"}, {Text: p.name, Href: statePath(p.name)}, {Text: body.Workspace, Href: p.workspacePath()}},
	}, nil
}

// takeoverMark marks the first version after a lock was taken from its holder.
func takeoverMark() site.Mark { return site.Mark{Text: "taken over", Kind: "bad"} }

func (s *versions) historyRow(p versionRef, v statebackend.Version) historyRow {
	row := historyRow{
		Link: site.Link{Text: strconv.FormatInt(v.N, 10), Href: p.workspacePath(strconv.FormatInt(v.N, 10))}, Written: s.clock.When(v.Created), Serial: v.Serial, Stored: v.Size,
		Who: site.Clip(text.Block(v.By())), Why: site.Clip(text.Block(v.Why())), Tool: site.Clip(text.Block(v.Tool)), Marks: marksOf(v, v.N == p.Numbers[0]),
	}
	if strings.HasPrefix(v.Run, "https://") || strings.HasPrefix(v.Run, "http://") {
		row.Run = v.Run
	}
	old := p.numberBefore(v.N)
	if old > 0 {
		row.Compare = p.workspacePath("diff") + fmt.Sprintf("?from=%d&to=%d", old, v.N)
	}
	if v.Operation == format.OperationTakeover || old > 0 && v.N-old >= statebackend.Jump {
		row.Marks = append(row.Marks, takeoverMark())
	}
	return row
}

// Bounds of a difference on a page.
const (
	maxChanged = 100 // addresses
	maxChanges = 500 // values
)

// diffBody is the difference between two versions.
type diffBody struct {
	Name, Workspace string
	From, To        int64
	Choices         []int64
	Whys            []string // reasons why a version cannot be read
	Changes         site.Changes
	LeftOut         string // what differs and is not compared
	Dropped         string // a warning: the other tool dropped resources
	More            int    // number of addresses that are not shown
}

// diff compares two versions, like okara state diff.
func (s *versions) diff(r *site.Request) (*site.Page, error) {
	p, err := s.versionAt(r)
	if err != nil {
		return nil, err
	}
	if len(p.Numbers) == 0 {
		return nil, site.NotFound("workspace %s has no versions yet", text.Block(p.workspace))
	}
	body := diffBody{Name: p.name, Workspace: text.Block(p.workspace), To: p.Numbers[0], From: p.Numbers[min(1, len(p.Numbers)-1)]}
	for name, n := range map[string]*int64{"from": &body.From, "to": &body.To} {
		if text := r.URL.Query().Get(name); text != "" {
			if *n, err = p.parseNumber(text); err != nil {
				return nil, err
			}
		}
	}
	body.Choices = p.Numbers[:min(len(p.Numbers), site.RowsPerPage)]
	if err := s.renders.Do(r.Grant.Caller, func() error { return s.compareStates(r, p, &body) }); err != nil {
		return nil, noState(err, p.name)
	}
	return &site.Page{
		Template: "state_diff.html", Title: "Compare versions", Body: body, Command: p.stateCommand("diff", fmt.Sprint(body.From), fmt.Sprint(body.To)),
		Crumbs: []site.Link{{Text: "States", Href: "states"}, {Text: p.name, Href: statePath(p.name)}, {Text: body.Workspace, Href: p.workspacePath()}},
	}, nil
}

func (s *versions) compareStates(r *site.Request, p versionRef, b *diffBody) error {
	var docs [2]*states.Document
	for i, n := range []int64{b.From, b.To} {
		d, err := s.states.Document(r.Context(), p.name, p.workspace, n)
		if err != nil {
			return err
		}
		switch docs[i] = d.Document; {
		case d.Version.Empty || d.Version.Deleted:
			docs[i] = &states.Document{}
		case docs[i] == nil:
			b.Whys = append(b.Whys, fmt.Sprintf("Version %d: %s", n, d.Why))
		}
	}
	if len(b.Whys) == 0 {
		changes, leftOut := states.Diff(docs[0], docs[1])
		if b.From < b.To {
			b.Dropped = states.ExplainDropped(docs[0], docs[1], p.stateCommand("restore", fmt.Sprint(b.From)))
		}
		b.LeftOut = site.Clip(text.Block(strings.Join(leftOut, ", ")))
		b.fillChanges(changes)
	}
	return nil
}

func (b *diffBody) fillChanges(changes []states.Change) {
	left := maxChanges
	numbers := map[string]int{}
	notes := map[string]string{states.Add: "added", states.Remove: "removed", states.Modify: "changed"}
	slices.SortStableFunc(changes, func(a, b states.Change) int { return site.CompareEffects(a.Action, b.Action) })
	for _, c := range changes {
		row := site.Change{Effect: c.Action, Name: site.Clip(text.Block(c.Address)), Note: notes[c.Action]}
		numbers[c.Action]++
		if len(b.Changes.Rows) == maxChanged {
			b.More++
			continue
		}
		n := min(len(c.Attributes), left)
		row.More = len(c.Attributes) - n
		left -= n
		for _, at := range c.Attributes[:n] {
			v := site.ValueChange{Name: site.Clip(text.Block(at.Path)), Masked: at.Sensitive, None: [2]bool{at.Before == nil, at.After == nil}}
			v.Old, _ = cutValue(valueText(at.Before))
			v.New, _ = cutValue(valueText(at.After))
			row.Values = append(row.Values, v)
		}
		b.Changes.Rows = append(b.Changes.Rows, row)
	}
	b.Changes.Counts, b.Changes.Words = site.CountChanges(numbers[states.Add], numbers[states.Modify], numbers[states.Remove])
}
