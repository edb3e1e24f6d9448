// SPDX-License-Identifier: Apache-2.0

package portalserve_test

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestAccount checks the account of the portal: with its own token the portal can do
// everything that it needs. TestPortalAccount in package chart shows that it can do nothing else.
//
// Shows: operator 37 | the portal launches, shows an address, renames, extends, protects, approves,
// claims and ends with the rights of its account alone; on every verb of every resource it has no
// others
func TestAccount(t *testing.T) {
	s := newSite(t, func(namespace string) *rest.Config { return cluster.PortalAccount(t, namespace) })
	s.template("sandbox.vpc", func(t *v1alpha1.TemplateSpec) { t.Approval.Mode = "Request"; t.Protection = true })
	s.template("sandbox.kept", func(t *v1alpha1.TemplateSpec) { t.Protection = true })
	s.template("sandbox.ready", func(t *v1alpha1.TemplateSpec) { t.Pool, t.Parameters = &v1alpha1.TemplatePool{Size: 1}, nil })
	s.life()
	s.keeps()
	s.claims()
}

// life takes an instance that needs approval from its request to its end.
func (s *site) life() {
	s.t.Helper()
	made := s.ask("anna", "POST", "/api/v1/instances", `{"template":"sandbox/vpc"}`, 202)
	at := "/api/v1/instances/" + made["id"].(string)
	plan, _ := s.until(at, func(doc map[string]any) bool { return doc["plan"] != nil })["plan"].(string)
	s.ask("anna", "POST", at+"/approve", `{"plan":"`+plan+`"}`, 403)
	s.ask("ben", "POST", at+"/approve", `{"plan":"`+plan+`"}`, 200)
	var approvals v1alpha1.ApprovalList
	if err := s.client.List(s.t.Context(), &approvals, client.InNamespace(s.namespace)); err != nil || len(approvals.Items) != 1 ||
		approvals.Items[0].Spec.Approver != "portal:okara:static#ben" || !strings.HasPrefix(approvals.Items[0].Spec.Plan, v1alpha1.PlanRequest) {
		s.t.Errorf("%v %+v", err, approvals.Items)
	}
	ready := s.until(at, phase("ready"))
	if link, _ := ready["connection"].(map[string]any); link["url"] != "https://"+made["id"].(string)+".example.com/" {
		s.t.Errorf("connection: %v", ready["connection"])
	}
	s.ask("anna", "POST", at+"/update", `{"name":"mine"}`, 200)
	s.until(at, func(doc map[string]any) bool { return doc["name"] == "mine" })
	s.ask("anna", "POST", at+"/extend", `{}`, 202) // a later end needs approval, too
	plan, _ = s.until(at, func(doc map[string]any) bool {
		return doc["plan"] != nil && doc["plan"] == s.heard(made["id"].(string))
	})["plan"].(string)
	s.ask("ben", "POST", at+"/approve", `{"plan":"`+plan+`"}`, 200)
	s.until(at, func(doc map[string]any) bool {
		return doc["extends"] == 1.0 && doc["expires_at"] != ready["expires_at"]
	})
	s.ask("anna", "POST", at+"/protect", `{}`, 403) // it would live longer, which is not approved
	s.ask("anna", "DELETE", at, "", 202)
	s.until(at, func(doc map[string]any) bool { return doc["phase"] != "ready" })
}

// keeps protects an instance that needs no approval.
func (s *site) keeps() {
	s.t.Helper()
	made := s.ask("anna", "POST", "/api/v1/instances", `{"template":"sandbox/kept"}`, 201)
	at := "/api/v1/instances/" + made["id"].(string)
	s.until(at, phase("ready"))
	s.ask("anna", "POST", at+"/protect", `{}`, 200)
	s.until(at, func(doc map[string]any) bool { return doc["protected"] != nil })
	s.ask("anna", "DELETE", at, "", 409)
	s.ask("anna", "POST", at+"/unprotect", `{}`, 200)
	s.until(at, func(doc map[string]any) bool { return doc["protected"] == nil })
	s.ask("anna", "DELETE", at, "", 202)
}

// heard is the waiting plan as the operator knows it.
func (s *site) heard(id string) any {
	s.t.Helper()
	var o v1alpha1.Instance
	must.Succeed(s.t, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: id}, &o))
	return o.Status.Plan
}

// claims takes the instance that waits in a pool.
func (s *site) claims() {
	s.t.Helper()
	s.wait("the pool is full", func() bool {
		s.settle()
		pool, _ := s.ask("anna", "GET", "/api/v1/templates/sandbox/ready", "", 200)["pool"].(map[string]any)
		return pool["available"] == 1.0
	})
	claimed := s.ask("anna", "POST", "/api/v1/run/sandbox/ready", `{}`, 201)
	if claimed["phase"] != "ready" || claimed["pooled"] != true {
		s.t.Errorf("claimed: %v", claimed)
	}
	s.ask("anna", "GET", "/api/v1/run/sandbox/ready/status", "", 200)
	s.ask("anna", "DELETE", "/api/v1/run/sandbox/ready", "", 202)
}

func phase(name string) func(map[string]any) bool {
	return func(doc map[string]any) bool { return doc["phase"] == name }
}

// until reconciles until an instance, as the user anna sees it, fulfils the condition.
func (s *site) until(at string, is func(map[string]any) bool) (doc map[string]any) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%s: %v", at, doc)
		}
	}()
	s.wait(at+" is as wanted", func() bool {
		s.settle()
		doc = s.ask("anna", "GET", at, "", 200)
		return is(doc)
	})
	return doc
}
