// SPDX-License-Identifier: Apache-2.0

package run

import (
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

// ScopeOf returns the values that expressions of a record's template can name, where
// config holds the free values of the server.
func ScopeOf(r *lifecycle.Record, config map[string]string) template.Scope {
	s := template.Scope{ID: r.ID, Owner: r.Owner, Parameters: r.Parameters, Claims: r.Claims, Config: config}
	if r.Run != nil {
		s.Stopped = r.Run.Off
		if r.Run.Parameters != nil {
			s.Parameters = r.Run.Parameters
		}
	}
	return s
}

// ConnectionOf returns how an instance is reached after an attempt of its run; nil unless
// it was applied. If the connection cannot be rendered, the error takes its place, since
// the instance itself exists.
func ConnectionOf(r *lifecycle.Record, t *template.Template, config map[string]string, res lifecycle.Result) *template.Connection {
	if r.Run.Kind != lifecycle.RunApply || res.Outcome != lifecycle.Done {
		return nil
	}
	s := ScopeOf(r, config)
	s.Outputs = res.Outputs
	c, err := template.RenderConnection(t, s)
	if err != nil {
		return &template.Connection{Type: template.ConnectionInstructions, Message: "the connection of the template cannot be shown: " + err.Error()}
	}
	return c
}
