// SPDX-License-Identifier: Apache-2.0

package portalserve_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestKinds: the kinds that a user may see, with an example.
func TestKinds(t *testing.T) {
	s := newSite(t, func(string) *rest.Config { return cluster.Admin(t) })
	s.template("sandbox.vpc", nil)
	def := &v1alpha1.ModuleKind{ObjectMeta: metav1.ObjectMeta{Name: "vpcs"}, Spec: v1alpha1.ModuleKindSpec{
		Names: v1alpha1.KindNames{Kind: "VPC", Plural: "vpcs"}, Module: v1alpha1.KindModule{Address: "net/vpc/aws", Version: "~> 1.4"},
		Dashboard: v1alpha1.KindDashboard{Title: "Virtual network", Category: "Infrastructure", Description: "A <b>network</b>."},
	}}
	must.Succeed(t, s.client.Create(t.Context(), def))
	t.Cleanup(func() { _ = s.client.Delete(t.Context(), def) }) // the cluster is shared by tests
	list := func(who string) []any {
		kinds, _ := s.ask(who, "GET", "/api/v1/templates", "", 200)["kinds"].([]any)
		return kinds
	}
	for len(list("clara")) == 0 { // until the cache has the kind
	}
	if one := s.ask("clara", "GET", "/api/v1/kinds/vpcs", "", 200); one["invalid"] != "the operator has not processed it yet" {
		t.Errorf("before the operator: %v", one)
	}
	def.Status.Example = "kind: VPC\nspec:\n  cidr: \"\"\n"
	def.Status.Module = &v1alpha1.ResolvedModule{Version: "1.4.2", Digest: "sha256:1"}
	must.Succeed(t, s.client.Status().Update(t.Context(), def))
	for s.ask("clara", "GET", "/api/v1/kinds/vpcs", "", 200)["example"] == nil {
	}
	one := s.ask("clara", "GET", "/api/v1/kinds/vpcs", "", 200)
	if one["api_version"] != "apps.okara.dev/v1alpha1" || one["version"] != "1.4.2" || one["invalid"] != nil {
		t.Errorf("%v", one)
	}
	if first, _ := list("clara")[0].(map[string]any); first["example"] != nil || first["title"] != "Virtual network" {
		t.Errorf("in the list: %v", first)
	}
	for path, want := range map[string][]string{
		"/ui/templates":  {"Virtual network", "kinds/vpcs", "Infrastructure"},
		"/ui/kinds/vpcs": {"A &lt;b&gt;network", "cidr: &#34;&#34;", "kubectl explain vpcs.spec", "1.4.2"},
	} {
		page := s.page("clara", path)
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%s has no %s:\n%s", path, text, page)
			}
		}
	}
	if kinds := list("anna"); kinds != nil {
		t.Errorf("anna has no right to kinds and sees %v", kinds)
	}
	s.ask("anna", "GET", "/api/v1/kinds/vpcs", "", 404)
	s.ask("clara", "GET", "/api/v1/kinds/none", "", 404)
	s.ask("", "GET", "/api/v1/kinds/vpcs", "", 401)
}

func (s *site) page(who, path string) string {
	s.t.Helper()
	r := must.Get(http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil))(s.t)
	r.Header.Set("Authorization", "Bearer "+tokenOf(who))
	resp := must.Get(http.DefaultClient.Do(r))(s.t)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %v\n%s", path, resp.StatusCode, err, b)
	}
	return string(b)
}
