// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"fmt"
	"net/http"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// Size of a graph, in its own units, which are pixels.
const (
	graphRows   = 10 // in a column; the lists on the page have all
	nodeWidth   = 260
	nodeHeight  = 28
	nodeStep    = 36
	columnWidth = 320
)

// graph draws what calls a module, and what it calls, for SVG with presentation attributes
// only. The page has the same as lists.
type graph struct {
	Width, Height int
	Nodes         []node
	Edges         []string
}

type node struct {
	site.Link
	X, Y int
}

// newGraph returns nil for a module that stands alone.
func newGraph(name string, callers, calls []site.Link) *graph {
	callers = callers[:min(len(callers), graphRows)]
	calls = calls[:min(len(calls), graphRows)]
	if len(callers)+len(calls) == 0 {
		return nil
	}
	g := &graph{Width: 2*columnWidth + nodeWidth + 2, Height: max(len(callers), len(calls)) * nodeStep}
	middle := g.Height / 2
	for column, links := range [][]site.Link{callers, {{Text: name}}, calls} {
		x := column*columnWidth + 1
		for i, link := range links {
			y := middle + i*nodeStep - len(links)*nodeStep/2 + (nodeStep-nodeHeight)/2
			link.Text = text.Clip(link.Text, 38)
			g.Nodes = append(g.Nodes, node{link, x, y})
			from, to, y1, y2 := columnWidth+nodeWidth, x, middle, y+nodeHeight/2
			if column == 0 {
				from, to, y1, y2 = nodeWidth, columnWidth, y2, middle
			}
			if column != 1 {
				g.Edges = append(g.Edges, fmt.Sprintf("M%d %dC%d %d %d %d %d %d", from, y1, from+30, y1, to-30, y2, to, y2))
			}
		}
	}
	return g
}

func (b *moduleBody) drawGraph() {
	var callers, calls []site.Link
	for _, row := range b.Callers.Rows {
		callers = append(callers, row.Link)
	}
	for _, c := range b.Calls {
		calls = append(calls, site.Link{Text: c.Source, Href: c.Href})
	}
	b.Graph = newGraph(b.Address, callers, calls)
}

// sendBadge draws the address and the newest version of a module, for READMEs.
func (s *modules) sendBadge(r *site.Request, w http.ResponseWriter) error {
	m, l, err := s.listedModule(r)
	if err != nil {
		return err
	}
	v, ok := l.Latest()
	if !ok {
		return site.NotFound("no version of module %s is available", m)
	}
	const letter, edge = 7, 6
	name, version := m.String(), "v"+v.String()
	left := len(name)*letter + 2*edge
	right := len(version)*letter + 2*edge
	site.Secure(w.Header())
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "private, max-age=300")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	_, err = fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s %s"><rect width="%d" height="20" fill="#47524e"/><rect x="%d" width="%d" height="20" fill="#1f6f5c"/>`+
		`<g fill="#fff" font-family="Verdana,sans-serif" font-size="11"><text x="%d" y="14" textLength="%d">%s</text><text x="%d" y="14" textLength="%d">%s</text></g></svg>`,
		left+right, name, version, left, left, right, edge, left-2*edge, name, left+edge, right-2*edge, version)
	return err
}
