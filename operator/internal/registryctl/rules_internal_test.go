// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// newRule returns a rule with a number; higher numbers are younger.
func newRule(namespace string, number, groups int) v1alpha1.AccessRule {
	o := v1alpha1.AccessRule{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprint("r", number), UID: types.UID(fmt.Sprint(number)),
		CreationTimestamp: metav1.Unix(int64(1_800_000_000+number), 0),
	}}
	for i := range groups {
		o.Spec.Groups = append(o.Spec.Groups, fmt.Sprintf("%0256d", i))
	}
	o.Spec.Allow = []v1alpha1.Right{v1alpha1.Right("read:module:" + namespace + "/**")}
	return o
}

// judge returns the judged rules without a cluster.
func judge(t *testing.T, list []v1alpha1.AccessRule) ([]judged, string) {
	t.Helper()
	all := must.Get((&rules{}).judge(t.Context(), list))(t)
	text := must.Get(fileOf(all))(t)
	if len(text) > 1<<20 {
		t.Errorf("the file has %d bytes", len(text))
	}
	if _, err := access.ParseRules([]byte(text)); err != nil {
		t.Errorf("the front-end does not read it: %v", err)
	}
	return all, text
}

// TestRoomForRules has more rules than the limits allow: the youngest have no effect.
//
// Shows: operator 3
func TestRoomForRules(t *testing.T) {
	var many, long, all []v1alpha1.AccessRule
	for i := range maxRules + 2 {
		many = append(many, newRule("many", maxRules+1-i, 1)) // the youngest comes first in the list
	}
	for i := range 6 {
		long = append(long, newRule("long", i, 50)) // each has about 13 KiB
	}
	for i := range 15 {
		for j := range 5 {
			all = append(all, newRule(fmt.Sprint("all-", i), i*5+j, 48))
		}
	}
	for name, test := range map[string]struct {
		list   []v1alpha1.AccessRule
		counts int
	}{"many": {many, maxRules}, "long": {long, 5}, "all": {all, 73}} {
		got, _ := judge(t, test.list)
		for i, j := range got {
			p, _ := asProblem(j.err)
			if counts := i < test.counts; counts != (j.err == nil) || !counts && p.Reason != v1alpha1.ReasonTooManyRules {
				t.Errorf("%s: rule %d, the oldest being 0: %v", name, i, j.err)
			}
		}
	}
	gone := newRule("gone", 0, 1)
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if got, text := judge(t, []v1alpha1.AccessRule{gone}); len(got) != 0 || text != `{"rules":[]}` {
		t.Errorf("a rule that is deleted: %+v, %s", got, text)
	}
}

// FuzzAccessRule checks that no rule grants anything beyond its namespace, and that the
// front-end can read the file.
//
// Shows: operator 3
func FuzzAccessRule(f *testing.F) {
	f.Add("read:module:a/**", "group", "claim", "*", "vpc/aws", "a/vpc/aws")
	f.Add("publish:module:a/{claim...}", "", "claim", "", "x/y", "a/x/y")
	f.Add("read:module:{claim}/**", "", "claim", "", "b", "b/x/y")
	f.Add("read:module:**", "", "", "", "", "b/x/y")
	f.Fuzz(func(t *testing.T, right, group, claim, glob, value, address string) {
		if strings.Count(right, "**") > 4 || len(right)+len(address) > 100 {
			return // matching many ** takes long
		}
		o := newRule("a", 0, 0)
		o.Spec.Groups, o.Spec.Claims = []string{group}, map[string]v1alpha1.ClaimGlob{claim: v1alpha1.ClaimGlob(glob)}
		o.Spec.Allow = []v1alpha1.Right{v1alpha1.Right(right)}
		r := &rules{Options: Options{}}
		rule := ruleOf(&o)
		if err := r.check(t.Context(), rule, "a", map[string][]string{"a": r.ownAddresses("a")}); err != nil {
			return
		}
		text := must.Get(json.Marshal(access.RulesFile{Rules: []access.Rule{rule}}))(t)
		if _, err := access.ParseRules(text); err != nil {
			t.Errorf("the front-end does not read %s: %v", text, err)
		}
		glob = strings.ReplaceAll(strings.ReplaceAll(rule.Allow[0].Glob, "{"+claim+"...}", value), "{"+claim+"}", value)
		if !strings.ContainsAny(value, "*{}") && addr.Match(glob, address) && address != "a" && !strings.HasPrefix(address, "a/") {
			t.Errorf("%s gives %s", right, address)
		}
	})
}
