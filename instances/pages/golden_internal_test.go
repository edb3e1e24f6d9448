// SPDX-License-Identifier: Apache-2.0

package pages

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
		"admin_templates":         {Body: adminTemplatesBody{}},
		"approvals":               {Body: approvalsBody{}},
		"kind":                    {Body: kindBody{}},
		"instance":                {Body: instanceBody{}},
		"instance_show_sensitive": {Body: sensitiveBody{}},
		"instance_run":            {Body: runBody{}},
		"instance_verb":           {Body: verbBody{}},

		"instances_several": {Body: severalBody{}},

		"instances":      {Body: instancesBody{}},
		"template":       {Body: templateBody{}},
		"templates":      {Body: templatesBody{}},
		"instances-own":  {Body: ownBody{}, Part: "own"},
		"run":            {Body: launchBody{}, Set: everyKind},
		"run-closed":     {Body: launchBody{}},
		"workspace_run":  {Body: workspaceRunBody{}},
		"workspace_runs": {Body: workspaceRunsBody{}},
	}, func(s webtest.Sheet, title, key string, body any) any {
		if s.Part != "" {
			return site.Under{Up: "./../", Of: body}
		}
		return &site.Page{Title: title, Key: key, Up: "./../", Body: body}
	})
}

// everyKind gives a form a field of each kind.
func everyKind(b any) {
	l := b.(*launchBody)
	l.Closed = ""
	if len(l.Asks) > 0 {
		parameter := l.Asks[0]
		l.Asks = nil
		for _, parameter.Kind = range []string{kindText, kindNumber, kindSecret, kindCheck, kindChoose, kindArea, kindJSON} {
			l.Asks = append(l.Asks, parameter)
		}
	}
}
