// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestUsers checks the actor for each name that an object may have for a user.
func TestUsers(t *testing.T) {
	users, err := ParseUsers([]string{"oidc:=https://idp.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	anna := lifecycle.Actor{Issuer: "https://idp.example.com", Subject: "anna"}
	for name, want := range map[string]lifecycle.Actor{
		"oidc:anna":                            anna,
		"portal:https://idp.example.com#anna":  anna,
		"https://idp.example.com#anna":         anna,
		"anna":                                 {Issuer: issuerCluster, Subject: "anna"},
		"oidc:":                                {Issuer: "https://idp.example.com"},
		"portal:static":                        {Issuer: "static"},
		"system:serviceaccount:team:oidc:anna": {Issuer: issuerCluster, Subject: "system:serviceaccount:team:oidc:anna"},
	} {
		if got := users.actorNamed(name); got.Issuer != want.Issuer || got.Subject != want.Subject {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := users.actorNamed(actorName(anna)); got.Issuer != anna.Issuer || got.Subject != anna.Subject {
		t.Errorf("%+v", got)
	}
	made := &v1alpha1.Instance{Spec: v1alpha1.InstanceSpec{Owner: &v1alpha1.Owner{Kind: "User", ID: "oidc:anna"}}}
	if got := users.owner(made); got.Issuer != anna.Issuer || got.ID != "anna" {
		t.Errorf("%+v", got)
	}
	made.Spec.Owner.Kind = "Group"
	if got := users.owner(made); got.Issuer != issuerCluster || got.ID != "oidc:anna" {
		t.Errorf("a group is nobody's name: %+v", got)
	}
	for _, text := range []string{"oidc:", "oidc:=http://idp.example.com", "oidc:=https://", "=idp"} {
		if _, err := ParseUsers([]string{text}); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	// Names with the prefix system: belong to the cluster, even if all users have one issuer.
	if users, err = ParseUsers([]string{"=https://idp.example.com"}); err != nil {
		t.Fatal(err)
	}
	if got := users.actorNamed("system:admin"); got.Issuer != issuerCluster {
		t.Errorf("%+v", got)
	}
	if got := users.actorNamed("anna"); got.Issuer != anna.Issuer {
		t.Errorf("%+v", got)
	}
}

// TestMaybeSame has pairs of actors that could and could not be the same user.
func TestMaybeSame(t *testing.T) {
	user := lifecycle.Actor{Issuer: issuerCluster, Subject: "anna"}
	account := lifecycle.Actor{Issuer: issuerCluster, Subject: "system:serviceaccount:ci:deploy"}
	portal := lifecycle.Actor{Issuer: "https://idp.example.com", Subject: "anna"}
	other := lifecycle.Actor{Issuer: "https://other.example.com", Subject: "anna"}
	for _, c := range []struct {
		a, b lifecycle.Actor
		want bool
	}{
		{user, portal, true}, {portal, user, true},
		{user, user, false}, {portal, portal, false}, // the machine compares these itself
		{account, portal, false}, {portal, account, false},
		{portal, other, false}, // different issuers have different users
		{lifecycle.Actor{}, portal, false}, {lifecycle.Actor{Admin: true}, user, false},
	} {
		if got := maybeSame(c.a, c.b); got != c.want {
			t.Errorf("%+v and %+v: %v", c.a, c.b, got)
		}
	}
}
