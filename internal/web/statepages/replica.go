// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// maxReplicas bounds those of a workspace that a page shows.
const maxReplicas = 20

// replicaRow is a copy of a workspace, as far as it came.
type replicaRow struct {
	site.Link
	N       int64  // its newest version; 0: none
	Lag     string // "": it was not read in time
	Behind  bool
	Command string // that brings it up to date; "": the names are nothing for a shell
}

// replicasBody are the copies of a workspace in this registry that the caller may
// read.
type replicasBody struct {
	Rows    []replicaRow
	Reading bool // not all repositories were looked at yet
	More    int  // that are not shown
}

func (s *versions) replicas(r *site.Request, p versionRef) (b replicasBody) {
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	marked, whole := s.states.Marked(ctx)
	b.Reading = !whole
	for _, m := range marked {
		if m.Replica == nil || m.State == "" || !r.Grant.May(s.visibility.read(m.State, p.workspace)) {
			continue
		}
		if of, ok := s.states.Original(*m.Replica, s.hosts.RegistryOf(r), r.Host); !ok || of != p.name || m.State == p.name {
			continue
		}
		if len(b.Rows) == maxReplicas {
			b.More++
			continue
		}
		row := replicaRow{Link: site.Link{Text: m.State, Href: statePath(m.State, p.workspace)}, Command: copyCommand(s.hosts.RegistryOf(r), p.Repository, m.Repository, p.workspace)}
		if there, err := s.states.Numbers(ctx, m.State, p.workspace); err == nil {
			if len(there) > 0 {
				row.N = there[0]
			}
			row.Lag, row.Behind = lag(p.Numbers, row.N)
		}
		b.Rows = append(b.Rows, row)
	}
	return b
}

// lag is what a copy lacks whose newest version is n.
func lag(source []int64, n int64) (text string, behind bool) {
	missing := len(slices.DeleteFunc(slices.Clone(source), func(v int64) bool { return v <= n }))
	if missing == 0 {
		return "up to date", false
	}
	return site.Plural(missing, "version") + " behind", true
}

func copyCommand(registry, from, to, workspace string) string {
	if text.Block(workspace) != workspace {
		return ""
	}
	return strings.Join([]string{"okara state replicate", text.ShellWord(registry + "/" + from), text.ShellWord(registry + "/" + to), "-w", text.ShellWord(workspace)}, " ")
}

// replicaMarks say of a version which copies stand at it.
func replicaMarks(rows []replicaRow, n int64) (all []site.Mark) {
	for _, row := range rows {
		if row.N == n {
			all = append(all, site.Mark{Text: "newest in " + row.Text, Kind: "plain"})
		}
	}
	return all
}

// replicaOf describes whose copy a workspace is; nil: it is none. How far it is
// behind is known where the original is here as well and the caller may read it.
func (s *versions) replicaOf(r *site.Request, p versionRef) *replicaBody {
	if p.Replica == nil {
		return nil
	}
	b := &replicaBody{Source: text.Block(p.Replica.Source), Since: s.clock.When(p.Replica.Updated), Command: p.command("show")}
	name, ok := s.states.Original(*p.Replica, s.hosts.RegistryOf(r), r.Host)
	if !ok || name == p.name || !r.Grant.May(s.visibility.read(name, p.workspace)) {
		return b
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	source, err := s.states.Numbers(ctx, name, p.workspace)
	if err == nil && len(source) > 0 && len(p.Numbers) > 0 {
		b.Original = statePath(name, p.workspace)
		b.Lag, b.Behind = lag(source, p.Numbers[0])
	}
	return b
}

// replicaBody says whose copy a state is.
type replicaBody struct {
	Source   string
	Original string // its page, below Up; "": it is not here
	Since    site.Timestamp
	Lag      string // "": it is not known here
	Behind   bool
	Command  string // that asks the original
}
