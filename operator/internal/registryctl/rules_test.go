// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/registryctl"
)

// rule creates an AccessRule for a group.
func (s *site) rule(ns, name string, change func(*v1alpha1.AccessRuleSpec), allow ...v1alpha1.Right) *v1alpha1.AccessRule {
	s.t.Helper()
	r := &v1alpha1.AccessRule{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	r.Spec.Groups, r.Spec.Allow = []string{"people"}, allow
	if change != nil {
		change(&r.Spec)
	}
	must.Succeed(s.t, s.Create(s.t.Context(), r))
	return r
}

func (s *site) rulesMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operatorNamespace, Name: registryctl.RulesConfigMap}}
}

// rulesAre waits until the file has exactly these rules, by name.
func (s *site) rulesAre(text string) {
	s.t.Helper()
	m := s.rulesMap()
	s.until("these rules: "+text, func() (bool, any) {
		if err := s.Get(s.t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			return false, err
		}
		return m.Data[registryctl.RulesKey] == text, m.Data
	})
}

func line(ns, name, allow string) string {
	return `{"name":"` + ns + "/" + name + `","groups":["people"],"allow":["` + allow + `"]}`
}

// TestAccessRules checks rules within and beyond the addresses of their namespace.
//
// Shows: operator 3 | rules of a namespace give no rights outside its addresses, whatever values
// their claims have; if there are too many rules, the oldest count; the front end applies a new
// rule, and keeps the old ones if a file is invalid
// Shows: kinds 12
func TestAccessRules(t *testing.T) {
	s := newSite(t, nil)
	s.issuers = []string{"https://idp.example.com"}
	s.start()
	s.rulesAre(`{"rules":[]}`) // the front-end waits for the file
	own := v1alpha1.Right("read:module:" + s.ns + "/**")
	first := s.rule(s.ns, "b", nil, own)
	s.says(first, true, v1alpha1.ReasonSynced)
	s.rulesAre(`{"rules":[` + line(s.ns, "b", string(own)) + `]}`)

	full := s.rule(s.ns, "a", func(r *v1alpha1.AccessRuleSpec) {
		r.Issuer, r.Claims = "https://idp.example.com", map[string]v1alpha1.ClaimGlob{"team": "net-*"}
	}, v1alpha1.Right("publish:module:"+s.ns+"/{project}/*"))
	s.says(full, true, v1alpha1.ReasonSynced)
	s.rulesAre(`{"rules":[{"name":"` + s.ns + `/a","issuer":"https://idp.example.com","groups":["people"],"claims":{"team":"net-*"},"allow":["publish:module:` +
		s.ns + `/{project}/*"]},` + line(s.ns, "b", string(own)) + `]}`)
	must.Succeed(t, s.Delete(t.Context(), full))
	s.rulesAre(`{"rules":[` + line(s.ns, "b", string(own)) + `]}`)

	for name, allow := range map[string]v1alpha1.Right{
		"claim": "read:module:{team}/**", "other": "read:module:net/**", "wider": "read:module:**", "kind": "read:mirror:" + v1alpha1.Right(s.ns) + "/**",
		"part": "read:module:" + v1alpha1.Right(s.ns) + "*/**", "provider": "publish:provider:net/aws",
	} {
		r := s.rule(s.ns, name, nil, own, allow)
		message := s.says(r, false, v1alpha1.ReasonAddressNotAllowed)
		if want := "spec.allow[1]: namespace " + s.ns + " may use module:" + s.ns + "/** only: an administrator can set okara.dev/addresses on it"; message != want || !stalled(r) {
			t.Errorf("%s: %q, stalled %t", name, message, stalled(r))
		}
		if name == "wider" {
			s.mustReport(r, v1alpha1.ReasonAddressNotAllowed)
		}
	}
	state := &v1alpha1.AccessRule{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "state"}, Spec: v1alpha1.AccessRuleSpec{Groups: []string{"people"}, Allow: []v1alpha1.Right{"write:state:prod.net/**"}}}
	if err := s.Create(t.Context(), state); !apierrors.IsInvalid(err) {
		t.Errorf("a right for states: %v", err)
	}
	unknown := s.rule(s.ns, "unknown", func(r *v1alpha1.AccessRuleSpec) { r.Issuer = "https://else.example.com" }, own)
	s.says(unknown, false, v1alpha1.ReasonIssuerUnknown)
	broken := s.rule(s.ns, "broken", nil, "read:module:"+v1alpha1.Right(s.ns)+"/{x")
	if message := s.says(broken, false, v1alpha1.ReasonInvalid); !strings.Contains(message, "enclose the name of a claim") {
		t.Error(message)
	}
	s.rulesAre(`{"rules":[` + line(s.ns, "b", string(own)) + `]}`)
}

// TestAccessRulesOfAnAdministrator checks that the annotation of a namespace allows a rule,
// and without the annotation it is refused again.
//
// Shows: operator 3
func TestAccessRulesOfAnAdministrator(t *testing.T) {
	s := newSite(t, nil)
	s.start()
	r := s.rule(s.ns, "r", nil, "read:module:net/**")
	s.says(r, false, v1alpha1.ReasonAddressNotAllowed)
	s.annotate(s.ns, "module:net/*/aws")
	s.says(r, false, v1alpha1.ReasonAddressNotAllowed) // the rule allows more than that
	s.annotate(s.ns, "mirror:example.com/**, module:net/**")
	s.says(r, true, v1alpha1.ReasonSynced)
	s.rulesAre(`{"rules":[` + line(s.ns, "r", "read:module:net/**") + `]}`)
	s.annotate(s.ns, "mirror:example.com/**")
	s.says(r, false, v1alpha1.ReasonAddressNotAllowed)
	s.rulesAre(`{"rules":[]}`)
}

// TestRulesFileIsKept checks that a foreign ConfigMap is not overwritten, that an edited
// one is restored, and that a new operator writes nothing.
//
// Shows: operator 3
func TestRulesFileIsKept(t *testing.T) {
	s := newSite(t, nil)
	foreign := s.rulesMap()
	foreign.Data = map[string]string{"rules.json": "mine"}
	must.Succeed(t, s.Create(t.Context(), foreign))
	s.start()
	r := s.rule(s.ns, "r", nil, v1alpha1.Right("read:module:"+s.ns+"/**"))
	if message := s.says(r, false, v1alpha1.ReasonNameTaken); !stalled(r) || message != "ConfigMap "+s.operatorNamespace+"/okara-rules exists and is not okara's: delete or rename it" {
		t.Errorf("%q, stalled %t", message, stalled(r))
	}
	if s.read(foreign); foreign.Data["rules.json"] != "mine" {
		t.Errorf("it was overwritten: %v", foreign.Data)
	}
	must.Succeed(t, s.Delete(t.Context(), foreign))
	s.says(r, true, v1alpha1.ReasonSynced)
	want := `{"rules":[` + line(s.ns, "r", "read:module:"+s.ns+"/**") + `]}`
	s.rulesAre(want)

	m := s.rulesMap()
	s.read(m)
	m.Data["rules.json"] = "all"
	must.Succeed(t, s.Update(t.Context(), m))
	s.rulesAre(want)
	s.stop()
	s.read(m)
	s.read(r)
	before, runs := m.ResourceVersion+" "+r.ResourceVersion, reconciled(t, "accessrule")
	s.start()
	s.until("looked at by the next operator", func() (bool, any) { return reconciled(t, "accessrule") > runs, nil })
	s.stop()
	s.read(m)
	s.read(r)
	if after := m.ResourceVersion + " " + r.ResourceVersion; after != before {
		t.Errorf("revisions %s, then %s", before, after)
	}
}
