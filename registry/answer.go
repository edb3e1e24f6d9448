// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"strings"
	"sync"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
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
// clients resolve what is relative against another address (docs/serve.md). For
// everybody else it is relative, such as "../../", and right behind any proxy: no word
// of a request gets into an answer.
func (l *links) root(r *http.Request) string {
	if l.publicHost != "" && strings.EqualFold(r.Host, l.publicHost) {
		return l.public
	}
	return strings.Repeat("../", strings.Count(r.URL.Path, "/")-1)
}
