// SPDX-License-Identifier: Apache-2.0

package web

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestGoldenSite shows each page type; see [webtest.Golden].
func TestGoldenSite(t *testing.T) {
	files, err := readTemplates([]set{{Templates: nil}})
	if err != nil {
		t.Fatal(err)
	}
	webtest.Golden(t, files, map[string]webtest.Sheet{
		"error": {Body: errorBody{}},
	}, func(s webtest.Sheet, title, key string, body any) any {
		return &page{Title: title, Key: key, Up: "./../", Body: body}
	})
}
