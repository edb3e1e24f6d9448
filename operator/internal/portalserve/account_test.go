// SPDX-License-Identifier: Apache-2.0

package portalserve_test

import (
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
)

// TestAccount is N2 of kubernetes-tests.md: with its own token the portal does all that
// it does, and nothing else that there is to do in the cluster is allowed.
func TestAccount(t *testing.T) {
	var account *rest.Config
	s := newSite(t, func(namespace string) *rest.Config {
		account = cluster.PortalAccount(t, namespace)
		return account
	})
	s.template()
	for s.ask("anna", "GET", "/api/v1/templates", "", 200)["count"] != 1.0 {
	}
	made := s.ask("anna", "POST", "/api/v1/instances", `{"template":"sandbox/vpc"}`, 202)
	id, _ := made["id"].(string)
	s.settle()
	seen := s.until("anna", id, func(doc map[string]any) bool { return doc["plan"] != nil })
	s.ask("anna", "POST", "/api/v1/instances/"+id+"/update", `{"name":"mine"}`, 200)
	s.settle()
	s.until("anna", id, func(doc map[string]any) bool { return doc["name"] == "mine" })
	s.ask("anna", "POST", "/api/v1/instances/"+id+"/approve", `{"plan":"`+seen["plan"].(string)+`"}`, 403)
	s.ask("ben", "POST", "/api/v1/instances/"+id+"/approve", `{"plan":"`+seen["plan"].(string)+`"}`, 200)
	var approvals v1alpha1.ApprovalList
	if err := s.client.List(t.Context(), &approvals, client.InNamespace(s.namespace)); err != nil || len(approvals.Items) != 1 ||
		approvals.Items[0].Spec.Approver != "portal:okara:static#ben" || approvals.Items[0].Spec.Plan != v1alpha1.PlanRequest {
		t.Errorf("%v %+v", err, approvals.Items)
	}
	s.settle()
	s.ask("anna", "DELETE", "/api/v1/instances/"+id, "", 202)
	s.nothingElse(account)
}

// settle has an operator look at what was written.
func (s *site) settle() {
	s.t.Helper()
	c := instancectl.NewController(s.client, s.client, nil, instancectl.Options{Settings: instancectl.Settings{Namespace: s.namespace}})
	if _, err := c.Pass(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// until asks for an instance until it is as wanted.
func (s *site) until(who, id string, is func(map[string]any) bool) map[string]any {
	s.t.Helper()
	for {
		if doc := s.ask(who, "GET", "/api/v1/instances/"+id, "", 200); is(doc) {
			return doc
		}
		if s.t.Context().Err() != nil {
			s.t.Fatal("it never came")
		}
	}
}

// nothingElse asks the API server about every verb on every resource that it has.
func (s *site) nothingElse(account *rest.Config) {
	s.t.Helper()
	set, err := kubernetes.NewForConfig(account)
	if err != nil {
		s.t.Fatal(err)
	}
	_, lists, err := set.Discovery().ServerGroupsAndResources()
	if err != nil {
		s.t.Fatal(err)
	}
	everywhere := map[string]string{
		"okara.dev/modulekinds": "get list watch",
		// every account: system:basic-user
		"authorization.k8s.io/selfsubjectaccessreviews": "create", "authorization.k8s.io/selfsubjectrulesreviews": "create",
		"authentication.k8s.io/selfsubjectreviews": "create",
	}
	here := map[string]string{
		"okara.dev/templates": "get list watch", "okara.dev/approvals": "create",
		"okara.dev/instances": "get list watch create update patch delete abandon",
	}
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate", "approve", "abandon", "override", "adopt"}
	other, asked := cluster.Namespace(s.t, nil).Name, 0
	for _, list := range lists {
		group, _, grouped := strings.Cut(list.GroupVersion, "/")
		if !grouped {
			group = ""
		}
		for _, res := range list.APIResources {
			resource, sub, _ := strings.Cut(res.Name, "/")
			namespaces := []string{""}
			if res.Namespaced {
				namespaces = []string{"", s.namespace, other}
			}
			for _, ns := range namespaces {
				for _, verb := range verbs {
					want := slices.Contains(strings.Fields(everywhere[group+"/"+res.Name]), verb) ||
						ns == s.namespace && slices.Contains(strings.Fields(here[group+"/"+res.Name]), verb)
					asked++
					got, err := set.AuthorizationV1().SelfSubjectAccessReviews().Create(s.t.Context(), &authorizationv1.SelfSubjectAccessReview{
						Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
							Namespace: ns, Verb: verb, Group: group, Version: "*", Resource: resource, Subresource: sub,
						}},
					}, metav1.CreateOptions{})
					if err != nil {
						s.t.Fatal(err)
					}
					if got.Status.Allowed != want {
						s.t.Errorf("%s %s/%s in %q: allowed %t, want %t", verb, group, res.Name, ns, got.Status.Allowed, want)
					}
				}
			}
		}
	}
	s.t.Logf("%d questions", asked)
}
