// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/chart"
)

// TestOperatorAccount compares everything that the API server allows the operator, in its
// own namespace and in an unrelated one, with and without runs, with a golden file, which
// OKARA_UPDATE=1 rewrites. The tests that run with these rights show that the operator
// needs them.
//
// Shows: operator 5
func TestOperatorAccount(t *testing.T) {
	var all strings.Builder
	for _, runs := range []bool{false, true} {
		o := options(t, "few.values.yaml")
		o.Namespace = cluster.Namespace(t, nil).Name
		title := "without runs"
		if runs {
			o.Values["runs"], title = map[string]any{"enabled": true, "cluster": "prod"}, "with runs"
		}
		t.Run(title, func(t *testing.T) {
			objects := must.Get(chart.Objects(o))(t)
			install(t, objects)
			set := as(t, "okara-operator", o.Namespace)
			all.WriteString("# " + title + "\n" + strings.Join(may(t, set, cluster.Namespace(t, nil).Name), "\n"))
			all.WriteString("\n# the same in its own namespace\n" + strings.Join(may(t, set, o.Namespace), "\n") + "\n")
		})
	}
	golden := filepath.Join("testdata", "account.golden")
	if os.Getenv("OKARA_UPDATE") != "" {
		must.Succeed(t, os.WriteFile(golden, []byte(all.String()), 0o600))
	}
	if want, err := os.ReadFile(golden); err != nil || all.String() != string(want) {
		t.Errorf("the operator may do something else than %s has (%v): see what changes with OKARA_UPDATE=1", golden, err)
	}
}

func as(t *testing.T, account, namespace string) *kubernetes.Clientset {
	t.Helper()
	config := rest.CopyConfig(cluster.Admin(t))
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r := must.Get(set.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	config.BearerToken = r.Status.Token
	if set, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return set
}

// may lists what a caller may do in a namespace.
func may(t *testing.T, set *kubernetes.Clientset, namespace string) []string {
	t.Helper()
	r := must.Get(set.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{}))(t)
	if r.Status.Incomplete {
		t.Error("the API server does not say everything")
	}
	verbs := map[string][]string{}
	for _, rule := range r.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			if group == "authorization.k8s.io" || group == "authentication.k8s.io" {
				continue
			}
			for _, resource := range rule.Resources {
				key := strings.Join(append([]string{group + "/" + resource}, rule.ResourceNames...), " ")
				verbs[key] = append(verbs[key], rule.Verbs...)
			}
		}
	}
	var lines []string
	for key, list := range verbs {
		slices.Sort(list)
		lines = append(lines, key+": "+strings.Join(slices.Compact(list), " "))
	}
	slices.Sort(lines)
	return lines
}
