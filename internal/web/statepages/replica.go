// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// maxReplicas bounds the replicas of a workspace that a page shows.
const maxReplicas = 20

type replicaRow struct {
	site.Link
	N       int64  // its newest version; 0: none
	Lag     string // "": the replica was not read in time
	Behind  bool
	Command string // command that updates it; "": the names are not safe for a shell
}

// replicasBody has the replicas of a workspace in this registry that the caller may read.
type replicasBody struct {
	Rows    []replicaRow
	Reading bool // not all repositories have been examined yet
	More    int  // number of replicas that are not shown
}

func (s *versions) replicas(r *site.Request, p versionRef) (b replicasBody) {
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	marked, whole := s.states.Marked(ctx)
	b.Reading = !whole
	for _, m := range marked {
		if m.Replica == nil || m.State == "" || !r.Grant.May(s.visibility.readRight(m.State, p.workspace)) {
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
			row.Lag, row.Behind = lagText(p.Numbers, row.N)
		}
		b.Rows = append(b.Rows, row)
	}
	return b
}

// lagText says how far a replica with the newest version n is behind.
func lagText(source []int64, n int64) (lag string, behind bool) {
	missing := len(slices.DeleteFunc(slices.Clone(source), func(v int64) bool { return v <= n }))
	if missing == 0 {
		return "up to date", false
	}
	return text.Plural(missing, "version") + " behind", true
}

func copyCommand(registry, from, to, workspace string) string {
	if text.Block(workspace) != workspace {
		return ""
	}
	return strings.Join([]string{"okara state replicate", text.ShellWord(registry + "/" + from), text.ShellWord(registry + "/" + to), "-w", text.ShellWord(workspace)}, " ")
}

// replicaMarks returns marks for the replicas whose newest version is n.
func replicaMarks(rows []replicaRow, n int64) (all []site.Mark) {
	for _, row := range rows {
		if row.N == n {
			all = append(all, site.Mark{Text: "newest in " + row.Text, Kind: "plain"})
		}
	}
	return all
}

// replicaOf describes the original of a replica; nil: the workspace is not a replica. The
// lag is known if the original is in this registry too and the caller may read it.
func (s *versions) replicaOf(r *site.Request, p versionRef) *replicaBody {
	if p.Replica == nil {
		return nil
	}
	b := &replicaBody{Source: text.Block(p.Replica.Source), Since: s.clock.When(p.Replica.Updated), Command: p.stateCommand("show")}
	name, ok := s.states.Original(*p.Replica, s.hosts.RegistryOf(r), r.Host)
	if !ok || name == p.name || !r.Grant.May(s.visibility.readRight(name, p.workspace)) {
		return b
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	source, err := s.states.Numbers(ctx, name, p.workspace)
	if err == nil && len(source) > 0 && len(p.Numbers) > 0 {
		b.Original = statePath(name, p.workspace)
		b.Lag, b.Behind = lagText(source, p.Numbers[0])
	}
	return b
}

// replicaBody describes the original of a replica.
type replicaBody struct {
	Source   string
	Original string // page of the original, below Up; "": it is not on this server
	Since    site.Timestamp
	Lag      string // "": unknown
	Behind   bool
	Command  string // command that reads the original
}
