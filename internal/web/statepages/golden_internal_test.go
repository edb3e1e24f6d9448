// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"net/http/httptest"
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

// TestAddress names http only for a reader on the same machine.
func TestAddress(t *testing.T) {
	for at, want := range map[string]string{"http://127.0.0.1:8080/": "http://127.0.0.1:8080", "https://localhost/": "https://localhost", "http://okara.example.com/": "https://okara.example.com"} {
		must.Equal(t, at, addressOf(site.Hosts{}, &site.Request{Request: httptest.NewRequest("GET", at, nil)}), want)
	}
	must.Equal(t, "set", addressOf(site.Hosts{Server: "okara.test"}, &site.Request{Request: httptest.NewRequest("GET", "http://127.0.0.1/", nil)}), "https://okara.test")
}
