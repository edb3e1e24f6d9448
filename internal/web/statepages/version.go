// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/statebackend"
)

// versionRef is a version of a state that a path names, which the caller may read.
type versionRef struct {
	*states.Workspace
	name, workspace string
	n               int64 // 0: there is no version yet
	repository      string
}

// versions has the pages of one workspace and its versions.
type versions struct {
	states     *states.States
	visibility visibility
	hosts      site.Hosts
	renders    site.RenderLimiter
	clock      site.Clock
	beside     func(r *site.Request, name, workspace string) []site.Link
}

// versionAt parses the path of a page and reads the workspace. Without a number in the path, the
// version is the newest one.
func (s *versions) versionAt(r *site.Request) (p versionRef, err error) {
	p.name = r.PathValue("name")
	p.workspace = r.PathValue("workspace")
	if p.Workspace, err = s.states.Workspace(r.Context(), p.name, p.workspace); err != nil {
		return p, noState(err, p.name+", workspace "+p.workspace)
	}
	p.repository = s.hosts.RegistryOf(r) + "/" + p.Repository
	if len(p.Numbers) > 0 {
		p.n = p.Numbers[0]
	}
	if text := r.PathValue("n"); text != "" {
		if p.n, err = p.parseNumber(text); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p versionRef) parseNumber(shown string) (int64, error) {
	n, err := strconv.ParseInt(shown, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != shown || !slices.Contains(p.Numbers, n) {
		return 0, site.NotFound("workspace %s has no version %s", text.Block(p.workspace), site.Clip(text.Block(shown)))
	}
	return n, nil
}

// workspacePath returns the path of a page below the workspace, below Up.
func (p versionRef) workspacePath(more ...string) string {
	return statePath(p.name, append([]string{p.workspace}, more...)...)
}

// versionPath returns the path of the page of the version, or of a page below it.
func (p versionRef) versionPath(more ...string) string {
	return p.workspacePath(append([]string{strconv.FormatInt(p.n, 10)}, more...)...)
}

// stateCommand returns a command about the workspace; "" if its name is not safe for a shell.
func (p versionRef) stateCommand(verb string, args ...string) string {
	if text.Block(p.workspace) != p.workspace {
		return ""
	}
	words := append([]string{"okara state", verb, text.ShellWord(p.repository)}, args...)
	return strings.Join(append(words, "-w", text.ShellWord(p.workspace)), " ")
}

// numberBefore returns the number of the version before n; 0 if there is none.
func (p versionRef) numberBefore(n int64) int64 {
	if i := slices.Index(p.Numbers, n); i >= 0 && i+1 < len(p.Numbers) {
		return p.Numbers[i+1]
	}
	return 0
}

// readStateView reads the version, under the render limit unless it is cached.
func (s *versions) readStateView(r *site.Request, p versionRef, n int64) (d *states.VersionView, err error) {
	read := func() error {
		d, err = s.states.Document(r.Context(), p.name, p.workspace, n)
		return err
	}
	if s.states.Has(p.name, p.workspace, n) {
		return d, read()
	}
	return d, s.renders.Do(r.Grant.Caller, read)
}

// versionBody is the page of a version, or of the workspace with its newest version.
type versionBody struct {
	Name, Workspace string
	N               int64
	Newest          bool
	Marks           []site.Mark
	Facts           []site.Fact
	Tabs            []site.Tab
	Lock            *site.Lock
	Replica         *replicaBody
	Why             string // why the content is not shown
	Outputs         []valueRow
	More            int // number of outputs that are not shown
	Managed, Data   []typeRow
	Compare         string // comparison with the previous version, below Up
	Current         string // page of the newest version, below Up
	Commands        []site.Example
}

// typeRow is the number of resources of a type.
type typeRow struct {
	Type, Href string
	Count      int
}

// show shows the newest version of a workspace with the holder of its lock, or another
// version.
func (s *versions) show(r *site.Request) (*site.Page, error) {
	p, err := s.versionAt(r)
	if err != nil {
		return nil, err
	}
	body := versionBody{Name: p.name, Workspace: text.Block(p.workspace), N: p.n, Newest: len(p.Numbers) == 0 || p.n == p.Numbers[0]}
	if body.Newest {
		body.Lock = site.NewLock(s.clock, p.Held, p.repository, p.workspace)
		body.Replica = s.replicaOf(r, p)
	}
	pg := &site.Page{
		Template: "state_version.html", Title: body.Workspace,
		Crumbs: []site.Link{{Text: "States", Href: "states"}, {Text: p.name, Href: statePath(p.name)}}, Command: p.stateCommand("show"),
		Also: s.beside(r, p.name, p.workspace),
	}
	if r.PathValue("n") != "" {
		pg.Title = fmt.Sprintf("Version %d", p.n)
		pg.Crumbs = append(pg.Crumbs, site.Link{Text: body.Workspace, Href: p.workspacePath()})
	}
	if p.n > 0 {
		d, err := s.readStateView(r, p, p.n)
		if err != nil {
			return nil, noState(err, p.name)
		}
		s.describeBody(&body, p, d)
	}
	pg.Body = body
	return pg, nil
}

// describeBody fills in the details of a version.
func (s *versions) describeBody(b *versionBody, p versionRef, d *states.VersionView) {
	v := d.Version
	b.Facts = versionFacts(s.clock, v, d.Bytes)
	b.Why = d.Why
	b.Marks = marksOf(v, b.Newest)
	b.Tabs = versionTabs(p, d, "state")
	if !b.Newest {
		b.Current = p.workspacePath()
	}
	if old := p.numberBefore(p.n); old > 0 {
		b.Compare = p.workspacePath("diff") + fmt.Sprintf("?from=%d&to=%d", old, p.n)
	}
	b.Commands = changeCommands(p, v)
	if d.Document == nil {
		return
	}
	types := map[[2]string]int{}
	for _, res := range d.Resources() {
		if res.Mode != states.ModeOutput {
			types[[2]string{res.Mode, res.Type}]++
			continue
		}
		if len(b.Outputs) < site.RowsPerPage {
			b.Outputs = append(b.Outputs, outputRow(p, d, res))
		} else {
			b.More++
		}
	}
	for key, n := range types {
		row := typeRow{site.Clip(text.Block(key[1])), p.versionPath("resources") + "?q=" + url.QueryEscape(key[1]+"."), n}
		if key[0] == states.ModeData {
			b.Data = append(b.Data, row)
		} else {
			b.Managed = append(b.Managed, row)
		}
	}
	b.Managed = mostFirst(b.Managed)
	b.Data = mostFirst(b.Data)
}

// mostFirst sorts types by the number of resources, highest first.
func mostFirst(rows []typeRow) []typeRow {
	slices.SortFunc(rows, func(a, b typeRow) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Type, b.Type)) })
	return rows[:min(len(rows), site.RowsPerPage)]
}

func versionFacts(now site.Clock, v statebackend.Version, size int) []site.Fact {
	all := []site.Fact{
		{Name: "Version", Text: strconv.FormatInt(v.N, 10)},
		{Name: "Written", When: now.When(v.Created)},
		{Name: "Serial", Text: strconv.FormatUint(v.Serial, 10)},
	}
	add := func(name, shown string) {
		if shown != "" {
			all = append(all, site.Fact{Name: name, Text: site.Clip(text.Block(shown))})
		}
	}
	add("By", v.By())
	add("For", v.Why())
	if v.Run != "" {
		all = append(all, site.Fact{Name: "Run", Text: site.Clip(text.Block(v.Run)), Href: v.Run})
	}
	add("With", v.Tool)
	if size > 0 {
		add("State", text.Size(int64(size)))
	}
	add("Stored", text.Size(v.Size))
	if v.Encrypted {
		add("Encrypted with", cmp.Or(strings.Join(envelope.KeyIDs(v.Envelope), ", "), "unnamed keys"))
	}
	add("Lineage", v.Lineage)
	return append(all, site.Fact{Name: "Digest", Digest: v.Digest})
}

func marksOf(v statebackend.Version, newest bool) []site.Mark {
	var all []site.Mark
	if newest {
		all = append(all, site.Mark{Text: "current", Kind: "good"})
	}
	switch {
	case v.Deleted:
		all = append(all, site.Mark{Text: "deleted", Kind: "bad"})
	case v.Empty:
		all = append(all, site.Mark{Text: "no state", Kind: "plain"})
	}
	if v.Encrypted {
		all = append(all, site.Mark{Text: "sealed", Kind: "plain"})
	}
	return all
}

// versionTabs returns the tabs of a version; a version that cannot be read has fewer.
func versionTabs(p versionRef, d *states.VersionView, here string) []site.Tab {
	tabs := []site.Tab{{Link: site.Link{Text: "State", Href: p.versionPath()}, Count: -1, Here: here == "state"}}
	if p.n == p.Numbers[0] {
		tabs[0].Href = p.workspacePath()
	}
	if d.Document != nil {
		n := 0
		for _, res := range d.Resources() {
			if res.Mode != states.ModeOutput {
				n++
			}
		}
		tabs = append(tabs, site.Tab{Link: site.Link{Text: "Resources", Href: p.versionPath("resources")}, Count: n, Here: here == "resources"})
	}
	return append(tabs, site.Tab{Link: site.Link{Text: "History", Href: p.workspacePath("history")}, Count: len(p.Numbers), Here: here == "history"})
}

// changeCommands returns commands for changes that the pages do not make.
func changeCommands(p versionRef, v statebackend.Version) []site.Example {
	n := strconv.FormatInt(p.n, 10)
	if p.stateCommand("pull") == "" {
		return nil
	}
	all := []site.Example{{Title: "Download this version", Text: p.stateCommand("pull", n, "-o", "terraform.tfstate")}}
	if p.n != p.Numbers[0] && !v.Empty {
		all = append(all, site.Example{Title: "Make it the current one again", Note: "This writes a new version with this content. Nothing is lost.", Text: p.stateCommand("restore", n)})
	}
	if p.n == p.Numbers[0] {
		all = append(all, site.Example{Title: "Replace the state", Note: "After you have edited the downloaded state and raised its serial.", Text: p.stateCommand("push", "terraform.tfstate")})
	}
	return all
}
