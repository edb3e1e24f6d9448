// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestGolden shows each page type; see [webtest.Golden].
func TestGolden(t *testing.T) {
	files := must.Get(site.ReadTemplates([]site.Set{{Templates: templates}}))(t)
	all := map[string]webtest.Sheet{
		"compare":   {Body: compareBody{}},
		"downloads": {Body: downloadsBody{}},
		"home":      {Body: homeBody{}},
		"namespace": {Body: listBody{}},
		"search":    {Body: listBody{}},
		"submodule": {Body: submoduleBody{}},
		"versions":  {Body: versionsBody{}},
	}
	for _, tab := range []string{"readme", "inputs", "outputs", "resources", "dependencies", "usage", "security", "files"} {
		all["module-"+tab] = webtest.Sheet{Body: moduleBody{}, Set: func(b any) {
			m := b.(*moduleBody)
			if m.Tab = tab; len(m.UsageExamples) == 0 {
				m.UsageExamples = []site.Example{{}} // there is always one
			}
		}}
	}
	for _, tab := range []string{"platforms", "keys", "docs", "usage", "security"} {
		all["provider-"+tab] = webtest.Sheet{Body: providerBody{}, Set: func(b any) { b.(*providerBody).Tab = tab }}
	}
	webtest.Golden(t, files, all, func(s webtest.Sheet, title, key string, body any) any {
		return &site.Page{Title: title, Key: key, Up: "./../", Body: body}
	})
}
