// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"testing"

	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
)

// TestNestedGroup lets a group of groups own an instance: one rule decides which groups a
// template admits.
func TestNestedGroup(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	s.Catalog.Change("lab/team", func(e *template.Entry) {
		changed := *e.Template
		changed.Groups = []string{"org/**"}
		e.Template = &changed
	})
	token := s.Issuer.Token(t, "dora", "use", "org/unit/team", "team-a")
	instance := create(t, s, token, `{"template":"lab/team"}`, 201)
	if instance.Owner == nil || instance.Owner.ID != "org/unit/team" {
		t.Errorf("%+v", instance.Owner)
	}
}
