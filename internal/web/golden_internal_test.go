// SPDX-License-Identifier: Apache-2.0

package web

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestGolden renders each page type; see [webtest.Golden].
//
// Shows: pages 1 | each page type full, empty, and with quotes, `</script>`, right-to-left marks
// and words of 10 KB in every text: hostile text adds no elements
// Shows: pages 2 | no style, script or absolute URL in a template; sizes of style sheet and script
func TestGolden(t *testing.T) {
	files := must.Get(site.ReadTemplates([]site.Set{{Templates: templateFiles}}))(t)
	webtest.Golden(t, files, map[string]webtest.Sheet{
		"audit":       {Body: auditBody{}},
		"depot":       {Body: depotBody{}},
		"doctor":      {Body: doctorBody{}},
		"first":       {Body: firstBody{}},
		"login":       {Body: loginBody{}},
		"login-token": {Body: loginBody{}, Set: func(b any) { b.(*loginBody).Issuer = "" }},
		"manual":      {Body: manualBody{}},
		"me":          {Body: meBody{}},
		"uses":        {Body: usesBody{}},
	}, func(s webtest.Sheet, title, key string, body any) any {
		return &site.Page{Title: title, Key: key, Up: "./../", Body: body}
	})
}
