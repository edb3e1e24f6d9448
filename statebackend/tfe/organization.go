// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"net/http"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
)

type organizationAttributes struct {
	Name        string          `json:"name"`
	Mode        string          `json:"default-execution-mode"`
	Permissions map[string]bool `json:"permissions"`
}

func (s organizations) organization(name string, g access.Grant) resource {
	return resource{Type: "organizations", ID: name, Attributes: organizationAttributes{
		Name: name, Mode: s.defaultMode(name),
		// Which workspaces a caller may create depends on their names.
		Permissions: map[string]bool{"can-create-workspace": g.May(s.o.Right(rights.Write, name, ""))},
	}}
}

// defaultMode is the execution mode of new workspaces.
func (s organizations) defaultMode(organization string) string {
	if s.o.Runs != nil && s.o.Mode(organization) == modeRemote {
		return modeRemote
	}
	return modeLocal
}

// listOrganizations lists the known organizations in which the caller may read something.
func (s organizations) listOrganizations(w http.ResponseWriter, r *http.Request) error {
	g, err := s.allow(r, rights.Read, workspaceRef{})
	if err != nil {
		return err
	}
	names, err := s.o.Organizations(r.Context(), g)
	if err != nil {
		return err
	}
	from, to, meta := readPage(r.URL.Query()).of(len(names))
	list := make([]resource, 0, to-from)
	for _, name := range names[from:to] {
		list = append(list, s.organization(name, g))
	}
	return answer(w, http.StatusOK, document{Data: list, Meta: meta})
}

// allowOrganization is allow for the routes with an organization in the path.
func (s *common) allowOrganization(r *http.Request, action rights.Action) (string, access.Grant, error) {
	name := r.PathValue("organization")
	if name == "" {
		return "", access.Grant{}, absent("no organization is named")
	}
	g, err := s.allow(r, action, workspaceRef{organization: name})
	return name, g, err
}

// showOrganization answers for every name that a state can have: organizations are not
// created before they are used.
func (s organizations) showOrganization(w http.ResponseWriter, r *http.Request) error {
	name, g, err := s.allowOrganization(r, rights.Read)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, document{Data: s.organization(name, g)})
}

// entitlements reports what an organization can do. Without operations the tools run
// where they are started.
func (s organizations) entitlements(w http.ResponseWriter, r *http.Request) error {
	name, _, err := s.allowOrganization(r, rights.Read)
	if err != nil {
		return err
	}
	can := map[string]bool{"state-storage": true, "operations": s.o.Runs != nil}
	for _, cannot := range []string{
		"agents", "audit-logging", "cost-estimation", "global-run-tasks", "private-module-registry", "private-run-tasks",
		"private-vcs", "run-tasks", "sentinel", "sso", "teams", "vcs-integrations",
	} {
		can[cannot] = false
	}
	return answer(w, http.StatusOK, document{Data: resource{Type: "entitlement-sets", ID: "org-" + name, Attributes: can}})
}

// ping identifies this API. It checks no right, since the tools call it before they have
// a token.
func (s organizations) ping(w http.ResponseWriter, _ *http.Request) error { return noContent(w) }

type userAttributes struct {
	Username string `json:"username"`
	Service  bool   `json:"is-service-account"`
}

// account reports the caller of a token. The tools use it to test a pasted token.
func (s organizations) account(w http.ResponseWriter, r *http.Request) error {
	g, err := s.allow(r, rights.Read, workspaceRef{})
	if err != nil {
		return err
	}
	name := nameOf(g.Caller)
	return answer(w, http.StatusOK, document{Data: resource{
		Type: "users", ID: "user-" + name, Attributes: userAttributes{name, g.Mode != "login" && g.Mode != "session"},
	}})
}
