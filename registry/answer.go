// SPDX-License-Identifier: Apache-2.0

package registry

import (
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

// up is the relative reference from the document at path to the root, such as
// "../../". Answers contain no host name, so they are right behind any proxy.
func up(path string) string {
	return strings.Repeat("../", strings.Count(path, "/")-1)
}
