// SPDX-License-Identifier: Apache-2.0

package site

import (
	"net/http"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
)

// maxStars is the number of stars that a browser keeps, all in one cookie; the oldest goes first.
const maxStars = 20

// isStarPath reports whether a path is of what can have a star: the page of a module or of a template.
func isStarPath(path string) bool {
	words := strings.Split(path, "/")
	if words[0] == "modules" && len(words) != 4 || words[0] == "templates" && len(words) != 3 || words[0] != "modules" && words[0] != "templates" {
		return false
	}
	return !slices.ContainsFunc(words, func(w string) bool {
		return w == "" || len(w) > 64 || strings.ContainsFunc(w, func(c rune) bool {
			return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
		})
	})
}

// mayOpen reports whether the caller may see what has a star: others use the same browser.
func mayOpen(g access.Grant, l Link) bool {
	if strings.HasPrefix(l.Href, "modules/") {
		return g.MayRead(addr.KindModule, l.Text)
	}
	allows := func(a rights.Action) bool {
		return g.May(rights.Right{Action: a, Kind: addr.KindInstance, Address: l.Text})
	}
	return g.MayRead(addr.KindTemplate, l.Text) || slices.ContainsFunc([]rights.Action{rights.Use, rights.Read, rights.Approve, rights.Admin}, allows)
}

// stars returns what the browser has starred, the newest first.
func (s *site) stars(r *http.Request) (all []Link) {
	for _, c := range r.CookiesNamed(s.choiceCookie(r, "stars", "", 0).Name) {
		for path := range strings.SplitSeq(c.Value, "|") {
			if _, name, _ := strings.Cut(path, "/"); len(all) < maxStars && isStarPath(path) {
				all = append(all, Link{Text: name, Href: path})
			}
		}
	}
	return all
}

// setStar adds or removes a star and redirects to its page.
func (s *site) setStar(r *Request, f *Form) (*Answer, error) {
	path := f.Get("path")
	if !isStarPath(path) {
		return nil, BadForm("not a module or a template")
	}
	var paths []string
	for _, l := range s.stars(r.Request) {
		paths = append(paths, l.Href)
	}
	if i := slices.Index(paths, path); i >= 0 {
		paths = slices.Delete(paths, i, i+1)
	} else {
		paths = slices.Insert(paths, 0, path)
	}
	r.SetCookie(s.choiceCookie(r.Request, "stars", strings.Join(paths[:min(len(paths), maxStars)], "|"), choiceAge))
	return &Answer{To: path}, nil
}

// IsStarred reports whether the browser has starred what the page is about.
func (p *Page) IsStarred() bool {
	return slices.ContainsFunc(p.Stars, func(l Link) bool { return l.Href == p.Star })
}
