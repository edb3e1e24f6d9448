// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
)

// encodedOnce returns the encoded answer of a form that derives from one immutable value and is
// cached in kept, if any, until the links in it are renewed. exp is the current expiry of links, 0
// for an answer without links.
func encodedOnce(kept *sync.Map, form string, exp int64, build func() (any, error)) (*service.Answer, error) {
	if kept != nil {
		if v, ok := kept.Load(form); ok {
			if a := v.(*linked); a.exp == exp {
				return a.Answer, nil
			}
		}
	}
	v, err := build()
	if err != nil {
		return nil, err
	}
	made, err := service.Encode(v)
	if err != nil {
		return nil, err
	}
	if kept != nil {
		kept.Store(form, &linked{made, exp})
	}
	return made, nil
}

func send(w http.ResponseWriter, r *http.Request, cacheControl string, a *service.Answer, err error) error {
	if err == nil {
		a.Write(w, r, cacheControl)
	}
	return err
}

type linked struct {
	*service.Answer
	exp int64 // 0: no links
}

// Values of Cache-Control for answers: private if access requires a token.
const (
	publicCache  = "public, max-age=30"
	privateCache = "private, max-age=30"
)

func cacheControl(g access.Grant) string {
	if g.Public {
		return publicCache
	}
	return privateCache
}

// root returns the prefix of addresses in an answer: the server's root as the client reaches it
// (docs/operate/serve.md), since some clients do not resolve relative ones. Unknown, or not the
// configured URL, it is relative, such as "../../", which is correct behind any proxy.
func (l *links) root(r *http.Request) string {
	if l.publicHost != "" {
		if strings.EqualFold(l.host(r), l.publicHost) {
			return l.public
		}
	} else if l.reached != nil {
		if root := l.reached(r); root != "" {
			return root + "/"
		}
	}
	return strings.Repeat("../", strings.Count(r.URL.Path, "/")-1)
}

// isSent reports whether a root contains the Host that a client sent.
func (l *links) isSent(root string) bool {
	return root != l.public && !strings.HasPrefix(root, "../")
}

// keptAnswers returns m, or nil for a root that a client sent, of which any number would fill m.
func (l *links) keptAnswers(m *sync.Map, root string) *sync.Map {
	if l.isSent(root) {
		return nil
	}
	return m
}

// cacheControl is [cacheControl] for addresses below root: no cache gives others a client's Host.
func (l *links) cacheControl(g access.Grant, root string) string {
	if l.isSent(root) {
		return privateCache
	}
	return cacheControl(g)
}

// Bounds of the warnings of a provider, which both tools show on every init.
const (
	maxWarnings    = 5
	maxWarning     = 300
	yankWarnedDays = 90
)

const day = 24 * time.Hour

// warningLines returns the lines about deprecated and recently withdrawn versions, one per message.
func warningLines(l *catalog.Versions, now time.Time) []string {
	var order []string
	versions := map[string][]string{}
	add := func(words string, v addr.Version) {
		if versions[words] == nil {
			order = append(order, words)
		}
		versions[words] = append(versions[words], v.String())
	}
	for _, v := range l.Listed {
		if s := l.Listing.Status(v); s.Deprecated != nil {
			add("deprecated"+s.Deprecated.Because(), v)
		}
	}
	for _, v := range l.Listing.Versions {
		if e := l.Listing.Status(v).Yanked; e != nil && now.Sub(e.Time) < yankWarnedDays*day {
			add("withdrawn"+e.Because(), v)
		}
	}
	var lines []string
	for i, words := range order {
		if i == maxWarnings {
			lines = append(lines, fmt.Sprintf("and %d more", len(order)-i))
			break
		}
		verb := " is "
		if len(versions[words]) > 1 {
			verb = " are "
		}
		lines = append(lines, text.Clip(strings.Join(versions[words], ", ")+verb+words, maxWarning))
	}
	return lines
}
