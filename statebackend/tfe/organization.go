// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"cmp"
	"context"
	"net/http"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
)

type organizations struct {
	gate       *gate
	list       func(context.Context, access.Grant) ([]string, error) // Options.Organizations
	mode       func(organization string) string
	operations bool // runs are executed here
}

func (s organizations) addRoutes(t table) {
	t.addRoute("GET", "ping", s.ping)
	t.addRoute("GET", "account/details", s.account)
	t.addRoute("GET", "organizations", s.listOrganizations)
	t.onOrganization("GET", "organizations/{organization}", rights.Read, s.showOrganization)
	t.onOrganization("GET", "organizations/{organization}/entitlement-set", rights.Read, s.showEntitlements)
}

type organizationAttributes struct {
	Name        string          `json:"name"`
	Mode        string          `json:"default-execution-mode"`
	Permissions map[string]bool `json:"permissions"`
}

func (s organizations) organizationResource(name string, g access.Grant) resource {
	return resource{Type: "organizations", ID: name, Attributes: organizationAttributes{
		Name: name, Mode: cmp.Or(s.mode(name), modeLocal),
		// Which workspaces a caller may create depends on their names.
		Permissions: map[string]bool{"can-create-workspace": s.gate.mayAct(g, rights.Write, name, "")},
	}}
}

// listOrganizations lists the known organizations in which the caller may read something.
func (s organizations) listOrganizations(w http.ResponseWriter, r *http.Request) error {
	g, err := s.gate.allowRef(r, rights.Read, workspaceRef{})
	if err != nil {
		return err
	}
	names, err := s.list(r.Context(), g)
	if err != nil {
		return err
	}
	return answerPage(w, r, names, func(name string) resource { return s.organizationResource(name, g) })
}

// allowOrganization is allowRef for the routes with an organization in the path.
func (s *gate) allowOrganization(r *http.Request, action rights.Action) (string, access.Grant, error) {
	name := r.PathValue("organization")
	if name == "" {
		return "", access.Grant{}, errAbsent("no organization given")
	}
	g, err := s.allowRef(r, action, workspaceRef{organization: name})
	return name, g, err
}

// showOrganization answers for every possible name: organizations are not created before use.
func (s organizations) showOrganization(w http.ResponseWriter, r *http.Request, name string, g access.Grant) error {
	return sendDocument(w, http.StatusOK, document{Data: s.organizationResource(name, g)})
}

// showEntitlements reports what works. Without operations the tools run where they are started.
func (s organizations) showEntitlements(w http.ResponseWriter, r *http.Request, name string, _ access.Grant) error {
	can := map[string]bool{"state-storage": true, "operations": s.operations}
	for _, cannot := range []string{
		"agents", "audit-logging", "cost-estimation", "global-run-tasks", "private-module-registry", "private-run-tasks",
		"private-vcs", "run-tasks", "sentinel", "sso", "teams", "vcs-integrations",
	} {
		can[cannot] = false
	}
	return sendDocument(w, http.StatusOK, document{Data: resource{Type: "entitlement-sets", ID: "org-" + name, Attributes: can}})
}

// ping identifies this API. It checks no right: the tools have no token yet.
func (s organizations) ping(w http.ResponseWriter, _ *http.Request) error { return noContent(w) }

type userAttributes struct {
	Username string `json:"username"`
	Service  bool   `json:"is-service-account"`
}

// account reports the caller of a token: the tools test a pasted one.
func (s organizations) account(w http.ResponseWriter, r *http.Request) error {
	g, err := s.gate.allowRef(r, rights.Read, workspaceRef{})
	if err != nil {
		return err
	}
	name := nameOf(g.Caller)
	return sendDocument(w, http.StatusOK, document{Data: resource{
		Type: "users", ID: "user-" + name, Attributes: userAttributes{name, g.Mode != "login" && g.Mode != "session"},
	}})
}
