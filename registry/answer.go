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

// encodedOnce returns the answer of a form that is made of one immutable value,
// beside which it is kept: it is encoded once, and again only when the links in it
// are renewed. exp is the end of the links the answer would have now, 0 for an
// answer without links.
func encodedOnce(kept *sync.Map, form string, exp int64, build func() (any, error)) (*service.Answer, error) {
	if v, ok := kept.Load(form); ok {
		if a := v.(*linked); a.exp == exp {
			return a.Answer, nil
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
	kept.Store(form, &linked{made, exp})
	return made, nil
}

// linked is an answer with links that end.
type linked struct {
	*service.Answer
	exp int64 // 0: it has none
}

// Cache-Control of answers: private where a token decides who may read.
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

// root is what an address in an answer begins with: the root of the server, as the
// client reaches it. For who came by the public URL that is this URL, since some
// clients resolve what is relative against another address (docs/operate/serve.md). For
// everybody else it is relative, such as "../../", and right behind any proxy: no word
// of a request gets into an answer.
func (l *links) root(r *http.Request) string {
	if l.publicHost != "" && strings.EqualFold(r.Host, l.publicHost) {
		return l.public
	}
	return strings.Repeat("../", strings.Count(r.URL.Path, "/")-1)
}

// Bounds of the warnings of a provider, which both tools show on every init.
const (
	maxWarnings    = 5
	maxWarning     = 300
	yankWarnedDays = 90
)

const day = 24 * time.Hour

// warnings are the lines about deprecated and lately withdrawn versions, those
// with the same words together.
func warnings(l *catalog.Versions, now time.Time) []string {
	var order []string
	versions := map[string][]string{}
	add := func(words string, v addr.Version) {
		if versions[words] == nil {
			order = append(order, words)
		}
		versions[words] = append(versions[words], v.String())
	}
	for _, v := range l.Listed {
		if s := l.Status(v); s.Deprecated != nil {
			add("deprecated"+s.Deprecated.Because(), v)
		}
	}
	for _, v := range l.Versions {
		if e := l.Status(v).Yanked; e != nil && now.Sub(e.Time) < yankWarnedDays*day {
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
