// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"net/http"
	"slices"
	"sync"
)

// DanglingTags is a registry with tags that are listed and 404, as after a death in between. PUT
// makes a tag real, DELETE removes it.
type DanglingTags struct {
	http.Handler

	mu   sync.Mutex // guards tags
	tags map[place]bool
}

// Add adds a dangling tag. The tag must not exist.
func (g *DanglingTags) Add(repository, tag string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tags == nil {
		g.tags = map[place]bool{}
	}
	g.tags[place{kind: "manifest", name: repository, ref: tag}] = true
}

func (g *DanglingTags) tagsOf(repository string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var tags []string
	for p := range g.tags {
		if p.name == repository {
			tags = append(tags, p.ref)
		}
	}
	return tags
}

// removeDangling removes a dangling tag and reports whether there was one.
func (g *DanglingTags) removeDangling(p place) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.tags[p]
	delete(g.tags, p)
	return was
}

func (g *DanglingTags) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := parsePlace(r.URL.Path)
	switch dangling := g.tagsOf(p.name); {
	case r.Method == http.MethodGet && p.kind == "tags" && len(dangling) > 0:
		tags, other := listTags(g.Handler, r)
		if other != nil && other.Code != http.StatusNotFound {
			replayResponse(w, other)
			return
		}
		tags = append(tags, dangling...)
		slices.Sort(tags)
		writeTags(w, p.name, tags)
		return
	case r.Method == http.MethodDelete && g.removeDangling(p):
		w.WriteHeader(http.StatusAccepted)
		return
	case r.Method == http.MethodPut && p.kind == "manifest":
		g.removeDangling(p)
	}
	g.Handler.ServeHTTP(w, r)
}
