// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestGolden shows each page type; see [webtest.Golden].
func TestGolden(t *testing.T) {
	files := must.Get(site.ReadTemplates([]site.Set{{Templates: files}}))(t)
	webtest.Golden(t, files, map[string]webtest.Sheet{
		"state":                {Body: statesBody{}},
		"state_diff":           {Body: diffBody{}},
		"state_history":        {Body: historyBody{}},
		"state_resources":      {Body: resourcesBody{}},
		"state_show_sensitive": {Body: sensitiveBody{}},
		"state_version":        {Body: versionBody{}},
		"states":               {Body: statesBody{}},
	}, func(s webtest.Sheet, title, key string, body any) any {
		return &site.Page{Title: title, Key: key, Up: "./../", Body: body}
	})
}
