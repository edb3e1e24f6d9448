// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// history lists the versions of a workspace of acme.
func (c client) history(status int, workspace, more string) reply {
	c.t.Helper()
	q := url.Values{"filter[organization][name]": {"acme"}, "filter[workspace][name]": {workspace}}
	return c.want(status, http.MethodGet, "state-versions?"+q.Encode()+more, nil)
}

func serials(a reply) []string {
	list := []string{}
	for _, i := range a.items() {
		list = append(list, fmt.Sprintf("%v %v", i.Attributes["serial"], i.Attributes["status"]))
	}
	return list
}

// Shows: cloud 22
func TestHistory(t *testing.T) {
	host := newRegistry(t)
	c := newTool(t, newServer(t, host, setup{}))
	c.create("prod")
	c.create("empty")
	for serial := range 5 {
		c.apply("prod", stateOf("l", serial+1))
	}
	a := c.history(http.StatusOK, "prod", "&page[size]=2&page[number]=2")
	must.Match(t, "second page", serials(a), []string{"3 finalized", "2 finalized"})
	var meta struct{ Pagination map[string]any }
	must.Succeed(t, json.Unmarshal(a.doc().Meta, &meta))
	want := map[string]any{"current-page": 2.0, "page-size": 2.0, "prev-page": 1.0, "next-page": 3.0, "total-pages": 3.0, "total-count": 5.0}
	must.Match(t, "pagination", meta.Pagination, want)
	first := c.history(http.StatusOK, "prod", "").items()[4]
	shown := c.want(http.StatusOK, http.MethodGet, "state-versions/"+first.ID, nil).item()
	if diff := cmp.Diff(first, shown); diff != "" {
		t.Errorf("version by its id (-list +shown):\n%s", diff)
	}
	if got := c.want(http.StatusOK, http.MethodGet, "state-versions/"+first.ID+"/download", nil); string(got.body) != stateOf("l", 1) {
		t.Errorf("first version: %s", got.body)
	}
	if got := c.history(http.StatusOK, "empty", "").items(); len(got) != 0 {
		t.Errorf("versions of a workspace without state: %v", got)
	}
	c.history(http.StatusNotFound, "none", "")
	c.as("dev").history(http.StatusForbidden, "prod", "")
	c.want(http.StatusUnprocessableEntity, http.MethodGet, "state-versions?filter[organization][name]=acme", nil)
	c.want(http.StatusUnprocessableEntity, http.MethodGet, "state-versions", nil)
	last := strings.TrimSuffix(first.ID, ".1")
	for _, id := range []string{last + ".9", last + ".01", last + ".-1", last, "sv-", "x", last + ".p09", last + ".p9x", "sv-" + strings.Repeat("A", 3000)} {
		c.want(http.StatusNotFound, http.MethodGet, "state-versions/"+id, nil)
	}
	pending := last + ".p9" // announced by a script, never stored
	c.want(http.StatusOK, http.MethodGet, "state-versions/"+pending, nil)
	c.want(http.StatusNotFound, http.MethodGet, "state-versions/"+pending+"/download", nil)
	c.want(http.StatusNotFound, http.MethodGet, "state-versions/"+pending+"/outputs", nil)
	c.as("dev").want(http.StatusForbidden, http.MethodGet, "state-versions/"+first.ID, nil)
	c.as("dev").want(http.StatusForbidden, http.MethodGet, "state-versions/"+first.ID+"/download", nil)
	c.as("").want(http.StatusUnauthorized, http.MethodGet, "state-versions/"+first.ID+"/download", nil)
	if a := c.want(http.StatusOK, http.MethodHead, "state-versions/"+first.ID+"/download", nil); len(a.body) != 0 {
		t.Errorf("HEAD answers %s", a.body)
	}
}

// rollbackTo is the body that requests the rollback to a version.
func rollbackTo(id string) object {
	return object{"data": object{"type": "state-versions", "relationships": object{
		"rollback-state-version": object{"data": object{"type": "state-versions", "id": id}},
	}}}
}

// Shows: cloud 22
func TestRollback(t *testing.T) {
	host := newRegistry(t)
	base := newServer(t, host, setup{})
	c, script := newTool(t, base), newScript(t, base)
	c.create("prod")
	c.create("other")
	for serial := range 3 {
		c.apply("prod", stateOf("l", serial+1))
	}
	c.apply("other", stateOf("o", 1))
	stable := script.read("prod")
	first := c.history(http.StatusOK, "prod", "").items()[2].ID
	patch := func(c client, status int, id, to string) reply {
		t.Helper()
		return c.want(status, http.MethodPatch, "workspaces/"+id+"/state-versions", rollbackTo(to))
	}
	for range 2 { // the request comes twice
		got := patch(script, http.StatusOK, stable, first).item()
		if got.Attributes["serial"] != 4.0 || got.Attributes["status"] != "finalized" {
			t.Errorf("%+v", got)
		}
	}
	script.wantState(stable, stateOf("l", 4))
	wantVersions(t, host, "prod", 4, 3, 2, 1)

	id := c.read("prod")
	c.lock(http.StatusOK, id)
	patch(script, http.StatusConflict, stable, first)
	patch(c, http.StatusOK, id, first)
	c.write(id, "l", 6)
	c.unlock(http.StatusOK, id)
	c.wantState(id, stateOf("l", 6))

	other := c.history(http.StatusOK, "other", "").items()[0].ID
	patch(script, http.StatusUnprocessableEntity, stable, other)
	patch(script, http.StatusUnprocessableEntity, stable, "sv-x")
	patch(script, http.StatusUnprocessableEntity, stable, "")
	patch(script, http.StatusNotFound, stable, strings.TrimSuffix(first, ".1")+".77")
	patch(script.as("reader"), http.StatusForbidden, stable, first)
	script.wantState(stable, stateOf("l", 6))
}

// withOutputs is a state with these outputs.
func withOutputs(lineage string, serial int, outputs string) string {
	return strings.Replace(stateOf(lineage, serial), `"outputs":{}`, `"outputs":`+outputs, 1)
}

func TestOutputsOfVersions(t *testing.T) {
	c := newTool(t, newServer(t, newRegistry(t), setup{}))
	c.create("prod")
	id := c.read("prod")
	if got := c.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/current-state-version-outputs", nil).items(); len(got) != 0 {
		t.Errorf("outputs without a state: %v", got)
	}
	if got := c.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"?include=outputs", nil).item(); got.ID != id {
		t.Errorf("a workspace without outputs: %+v", got)
	}
	c.apply("prod", withOutputs("l", 1, `{"key":{"value":"s3cret","type":"string","sensitive":true},"n":{"value":1.50,"type":"number"},"<":{"value":"<&>","type":"string"}}`))
	c.apply("prod", withOutputs("l", 2, `{"n":{"value":12345678901234567890,"type":"number"}}`))
	current := c.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/current-state-version-outputs", nil)
	if strings.Contains(string(current.body), "detailed-type") || len(current.items()) != 1 {
		t.Errorf("outputs that the tools are to read for themselves: %s", current.body)
	}
	first := c.history(http.StatusOK, "prod", "").items()[1].ID
	a := c.want(http.StatusOK, http.MethodGet, "state-versions/"+first+"/outputs", nil)
	must.Match(t, "outputs", a.names(), []string{"<", "key", "n"})
	list := a.items()
	if list[1].Attributes["value"] != nil || list[2].Attributes["value"] != 1.5 || list[2].Attributes["detailed-type"] != "number" || list[0].Attributes["value"] != "<&>" {
		t.Errorf("%+v", list)
	}
	if got := c.want(http.StatusOK, http.MethodGet, "state-version-outputs/"+list[1].ID, nil).item(); got.Attributes["value"] != "s3cret" || got.ID != list[1].ID {
		t.Errorf("a sensitive output by its id: %+v", got)
	}
	c.as("dev").want(http.StatusForbidden, http.MethodGet, "state-version-outputs/"+list[1].ID, nil)
	c.want(http.StatusNotFound, http.MethodGet, "state-version-outputs/"+list[1].ID+"x", nil)
	c.want(http.StatusNotFound, http.MethodGet, "state-version-outputs/wsout-x", nil)
	page := c.want(http.StatusOK, http.MethodGet, "state-versions/"+first+"/outputs?page[size]=2&page[number]=2", nil)
	must.Match(t, "second page", page.names(), []string{"n"})
	for _, path := range []string{"state-versions/" + first + "?include=outputs", "workspaces/" + id + "?include=outputs", "workspaces/" + id + "/current-state-version?include=outputs"} {
		a := c.want(http.StatusOK, http.MethodGet, path, nil)
		var d struct{ Included []item }
		must.Succeed(t, json.Unmarshal(a.body, &d))
		var refs []struct{ Type, ID string }
		must.Succeed(t, json.Unmarshal(a.item().Relationships["outputs"].Data, &refs))
		if len(d.Included) == 0 || len(refs) != len(d.Included) || refs[0].ID != d.Included[0].ID || refs[0].Type != d.Included[0].Type {
			t.Errorf("%s: included %v, outputs %v", path, d.Included, refs)
		}
		if strings.Contains(string(a.body), "s3cret") {
			t.Errorf("%s shows a sensitive value", path)
		}
	}
}

// A state that OpenTofu encrypts is returned unchanged, and its outputs are unknown.
//
// Shows: cloud 14
func TestEncryptedByTool(t *testing.T) {
	const state = `{"serial":1,"lineage":"l","meta":{"key_provider.pbkdf2.k":"e30="},"encrypted_data":"AAAA","encryption_version":"v0"}`
	c := newTool(t, newServer(t, newRegistry(t), setup{}))
	c.create("prod")
	c.apply("prod", state)
	id := c.read("prod")
	c.wantState(id, state)
	got := c.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/current-state-version-outputs", nil).items()
	if len(got) != 1 || got[0].Attributes["name"] != "encrypted" || got[0].Attributes["sensitive"] != true || got[0].Attributes["value"] != nil {
		t.Errorf("%+v", got)
	}
}

func newSealer(t *testing.T, key string) statebackend.Sealer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	must.Succeed(t, os.WriteFile(file, []byte(strings.Repeat(key, 32)), 0o600))
	return must.Get(envelope.New(envelope.Options{Keys: []string{file}}))(t)
}

// A state that cannot be read is never "no state": the tools would plan from
// nothing. Permanent errors are not retried for minutes.
//
// Shows: cloud 6
func TestUnreadable(t *testing.T) {
	host := newRegistry(t)
	sealed := func(key string) func(*statebackend.Options) {
		return func(o *statebackend.Options) { o.Sealer = newSealer(t, key) }
	}
	c := newTool(t, newServer(t, host, setup{store: sealed("k")}))
	c.create("prod")
	c.apply("prod", stateOf("l", 1))
	id := c.read("prod")
	c.wantState(id, stateOf("l", 1))
	for name, tt := range map[string]struct {
		o    setup
		want func(status int) bool
	}{
		"no key":              {setup{}, func(status int) bool { return status == 422 }},
		"another key":         {setup{store: sealed("x")}, func(status int) bool { return status == 422 }},
		"registry away":       {setup{store: sealed("k"), via: &ocitest.Fault{Times: -1, Do: ocitest.Refuse}}, func(status int) bool { return status >= 500 }},
		"registry denies":     {setup{store: sealed("k"), via: &ocitest.Fault{Times: -1, Do: ocitest.Status(403, -1)}}, func(status int) bool { return status == 422 }},
		"manifests not found": {setup{store: sealed("k"), via: &ocitest.Fault{Match: ocitest.On(http.MethodGet, "manifest"), Times: -1, Do: ocitest.Status(404, -1)}}, func(status int) bool { return status == 422 || status == 503 }},
		"blobs not found":     {setup{store: sealed("k"), via: &ocitest.Fault{Match: ocitest.On(http.MethodGet, "blob"), Times: -1, Do: ocitest.Status(404, -1)}}, func(status int) bool { return status == 422 || status == 200 }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTool(t, newServer(t, host, tt.o))
			seen := 0
			for _, path := range []string{"workspaces/" + id + "/current-state-version?include=outputs", "workspaces/" + id + "/current-state-version-outputs"} {
				a := c.do(http.MethodGet, path, nil)
				if a.status != 200 {
					seen++
				}
				if !tt.want(a.status) || a.status == 200 && name != "blobs not found" {
					t.Errorf("%s: status %d %s", path, a.status, a.body)
				}
			}
			if seen == 0 && name != "blobs not found" { // small states are not only in a blob
				t.Error("nothing was wrong")
			}
		})
	}
}

// The first version may be listed before it can be read: no damage.
func TestCurrentVersionBeingWritten(t *testing.T) {
	host := newRegistry(t)
	c := newTool(t, newServer(t, host, setup{}))
	c.create("prod")
	c.apply("prod", stateOf("l", 1))
	for _, strict := range []bool{true, false} {
		late := &ocitest.Fault{
			Match: func(r *http.Request) bool {
				return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/manifests/state-prod-v1")
			},
			Times: 2,
			Do:    ocitest.Status(http.StatusNotFound, -1),
		}
		other := newTool(t, newServer(t, host, setup{via: late, store: func(o *statebackend.Options) { o.StrictReads = strict }}))
		w := other.want(http.StatusOK, http.MethodGet, "organizations/acme/workspaces/prod", nil).item()
		v := other.want(http.StatusOK, http.MethodGet, "workspaces/"+w.ID+"/current-state-version", nil).item()
		if v.Attributes["serial"] != 1.0 || late.Seen() < 3 {
			t.Errorf("strict %t: current version %v after %d requests", strict, v, late.Seen())
		}
	}
}
