// SPDX-License-Identifier: Apache-2.0

//go:build browser

package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// album writes screenshots of pages, for review by developers.
type album struct {
	b    *webtest.Browser
	dir  string
	only []string // the wanted pages; empty: all
}

// picture is a page with the settings of a browser.
type picture struct {
	name, url string
	token     string // of the caller, "" for an anonymous one
	script    bool   // script is on, and later updates are not waited for
}

// take writes a page in both themes, on a wide and a narrow screen.
func (a *album) take(t *testing.T, all ...picture) {
	t.Helper()
	for _, p := range all {
		if len(a.only) > 0 && !a.wants(p.name) {
			continue
		}
		for _, width := range []int{1280, 375} {
			for _, theme := range []string{"light", "dark"} {
				look := webtest.Look{Width: width, Theme: theme, Token: p.token, Script: p.script}
				a.b.Picture(t, p.url, filepath.Join(a.dir, fmt.Sprintf("%s-%s-%d.png", p.name, theme, width)), look)
			}
		}
	}
}

// wants reports whether a page was selected by its name, or by a prefix of it.
func (a *album) wants(name string) bool {
	for _, only := range a.only {
		if begin, ok := strings.CutSuffix(only, "*"); name == only || ok && strings.HasPrefix(name, begin) {
			return true
		}
	}
	return false
}

// TestPictures writes screenshots (make screenshots), of OKARA_SCREENSHOTS_OF or all.
func TestPictures(t *testing.T) {
	dir := os.Getenv("OKARA_SCREENSHOTS")
	if dir == "" {
		t.Skip("OKARA_SCREENSHOTS names no directory for pictures")
	}
	must.Succeed(t, os.MkdirAll(dir, 0o700))
	a := &album{webtest.New(t), dir, strings.Fields(os.Getenv("OKARA_SCREENSHOTS_OF"))}
	t.Run("catalog", a.catalog)
	t.Run("states", a.states)
	t.Run("instances", a.instances)
	t.Run("nothing", a.nothing)
}

// catalog has the pages of published items, and of errors.
func (a *album) catalog(t *testing.T) {
	s := newGallery(t)
	const vpc, dns, mirror, network = "modules/net/vpc/aws/", "providers/acme/dns/", "mirror/registry.example.com/acme/dns", "modules/net/network/aws/"
	who := callerToken(admin)
	for name, path := range map[string]string{
		"home": "", "search": "search?q=vpc", "search-filtered": "search?kind=module&sort=newest&signed=yes", "search-near": "search?q=netwrok", "search-nothing": "search?q=zzzzzzzz", "search-narrow": "search?q=service&namespace=team&system=aws",
		"namespace": "modules/net", "namespace-many": "modules/team",
		"module": network + "2.3.1", "module-hostile": vpc + "1.10.0", "module-bare": "modules/net/bare/aws/1.0.0", "module-deprecated": "modules/net/legacy/aws", "module-yanked": network + "2.2.0",
		"inputs": vpc + "1.10.0/inputs", "inputs-many": "modules/net/large/aws/1.0.0/inputs", "inputs-none": "modules/net/bare/aws/1.0.0/inputs",
		"outputs": vpc + "1.10.0/outputs", "resources": vpc + "1.10.0/resources", "outputs-many": "modules/net/wide/aws/1.0.0/outputs", "resources-many": "modules/net/wide/aws/1.0.0/resources?resources=2", "dependencies": vpc + "1.10.0/dependencies", "dependencies-none": "modules/net/bare/aws/1.0.0/dependencies",
		"usage": vpc + "1.10.0/usage", "security": vpc + "1.10.0/security", "security-usual": network + "2.3.1/security", "security-level": vpc + "1.10.0/security?level=critical", "security-none": "modules/net/bare/aws/1.0.0/security",
		"files": vpc + "1.10.0/files", "files-folder": vpc + "1.10.0/files/docs", "file": vpc + "1.10.0/files/main.tf", "file-picture": vpc + "1.10.0/files/docs/net.svg", "file-binary": vpc + "1.10.0/files/docs/data.bin",
		"submodule": network + "2.3.1/submodules/modules/subnets", "submodule-bare": "modules/net/bare/aws/1.0.0/submodules/modules/a", "example": network + "2.3.1/examples/examples/two-zones",
		"versions": "modules/net/network/aws/versions", "compare": "modules/net/vpc/aws/compare?from=1.0.0&to=1.10.0", "compare-same": "modules/net/vpc/aws/compare?from=1.0.0&to=1.0.0",
		"downloads": "modules/net/network/aws/downloads", "downloads-none": "modules/net/bare/aws/downloads",
		"provider": "providers/acme/dns", "provider-docs": dns + "1.2.3/docs/resources/record", "provider-keys": dns + "1.2.3/keys", "provider-versions": dns + "versions",
		"provider-security": dns + "1.2.3/security", "provider-usage": dns + "1.2.3/usage", "mirror": mirror, "mirror-usage": mirror + "/1.2.3/usage",
		"me": "me", "error-404": "modules/net/nothing/aws",
	} {
		a.take(t, picture{name: name, url: s.URL + "/ui/" + path, token: who, script: true})
	}
	a.take(t,
		picture{name: "error-403", url: s.URL + "/ui/modules/net/vpc/aws", token: callerToken(wrong)},
		picture{name: "login", url: s.URL + "/ui/login?return=/ui/me"})
	s.outage.Store(true)
	a.take(t, picture{name: "error-502", url: s.URL + "/ui/modules/net/cold/aws", token: who})
}

// states has the pages of states, and those for administrators.
func (a *album) states(t *testing.T) {
	s := newStateSite(t)
	s.shop(t)
	s.depots.fill(s.now)
	for name, path := range map[string]string{
		"states": "states", "state": "states/shop", "workspace": "states/shop/default", "workspace-old": "states/shop/default/1", "workspace-locked": "states/shop/locked", "workspace-sealed": "states/shop/sealed",
		"history": "states/shop/default/history", "diff": "states/shop/default/diff?from=1&to=2", "diff-same": "states/shop/default/diff?from=1&to=1",
		"state-resources": "states/shop/default/2/resources", "state-resources-none": "states/shop/default/2/resources?q=zzz",
		"state-resource": "states/shop/default/2/resources?address=aws_db_instance.main", "state-reveal": "states/shop/default/2/reveal?address=aws_db_instance.main&path=password",
		"doctor": "doctor", "audit": "audit", "audit-decisions": "audit?what=decisions", "audit-nothing": "audit?actor=nobody", "depot": "depot", "me-admin": "me",
	} {
		a.take(t, picture{name: name, url: s.URL + "/ui/" + path, token: callerToken(admin), script: true})
	}
	a.take(t, picture{name: "error-403-doctor", url: s.URL + "/ui/doctor", token: callerToken(reader)})
}

func (a *album) instances(t *testing.T) {
	d := portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) { o.Catalog = portaltest.NewCatalog(t, portaltest.Shop) })
	id := d.Full(t)
	for name, of := range map[string][2]string{
		"home-own": {"anna", ""}, "templates": {"anna", "templates"}, "template": {"anna", "templates/lab/vpc"}, "template-hostile": {"anna", "templates/lab/evil"},
		"launch": {"anna", "run/lab/vpc?p.size=large"}, "launch-keys": {"anna", "run/lab/keys"},
		"instances": {"anna", "instances"}, "instances-nothing": {"anna", "instances?template=none/*"}, "instance": {"anna", "instances/" + id["ready"]}, "instance-working": {"anna", "instances/" + id["working"]},
		"instance-failed": {"anna", "instances/" + id["failed"]}, "instance-waiting": {"anna", "instances/" + id["planned"]}, "instance-hostile": {"anna", "instances/" + id["evil"]},
		"instance-destroy": {"anna", "instances/" + id["ready"] + "/destroy"}, "instance-update": {"anna", "instances/" + id["ready"] + "/update"}, "instance-reveal": {"anna", "instances/" + id["ready"] + "/reveal?name=password"},
		"instance-run": {"anna", "instances/" + id["ready"] + "/runs/1"}, "instance-approve": {"approver", "instances/" + id["planned"] + "/approve"}, "approvals": {"approver", "approvals"},
		"admin-instances": {"admin", "admin/instances"}, "admin-templates": {"admin", "admin/templates"}, "me-oidc": {"anna", "me"}, "error-403-instances": {"stranger", "instances"},
	} {
		a.take(t, picture{name: name, url: d.Pages.URL + "/ui/" + of[1], token: d.Tokens[of[0]]})
	}
}

// nothing has the pages of an empty server.
func (a *album) nothing(t *testing.T) {
	s := newStateSite(t)
	for name, path := range map[string]string{
		"empty-home": "", "empty-search": "search", "empty-states": "states", "empty-doctor": "doctor", "empty-audit": "audit", "empty-decisions": "audit?what=decisions", "empty-depot": "depot",
	} {
		a.take(t, picture{name: name, url: s.URL + "/ui/" + path, token: callerToken(admin)})
	}
	a.take(t, picture{name: "empty-states-reader", url: s.URL + "/ui/states", token: callerToken(publisher)}, picture{name: "empty-me", url: s.URL + "/ui/me"})
	s.depots.view.Runs = true
	a.take(t, picture{name: "empty-depot-file", url: s.URL + "/ui/depot", token: callerToken(admin)})
	d := portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) { o.Catalog = portaltest.NewCatalog(t, "") })
	for name, of := range map[string][2]string{
		"empty-templates": {"anna", "templates"}, "empty-instances": {"anna", "instances"}, "empty-approvals": {"approver", "approvals"},
		"empty-admin-instances": {"admin", "admin/instances"}, "empty-admin-templates": {"admin", "admin/templates"},
	} {
		a.take(t, picture{name: name, url: d.Pages.URL + "/ui/" + of[1], token: d.Tokens[of[0]]})
	}
}
