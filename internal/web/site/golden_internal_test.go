// SPDX-License-Identifier: Apache-2.0

package site

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestGolden shows each page type; see [webtest.Golden].
func TestGolden(t *testing.T) {
	files := must.Get(ReadTemplates([]Set{{Templates: nil}}))(t)
	webtest.Golden(t, files, map[string]webtest.Sheet{
		"error": {Body: errorBody{}},
	}, func(s webtest.Sheet, title, key string, body any) any {
		return &Page{Title: title, Key: key, Up: "./../", Body: body}
	})
}
