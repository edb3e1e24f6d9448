// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// issuerCluster is the issuer of users that only the cluster knows.
const issuerCluster = "kubernetes"

// portalPrefix begins the names of users of the portal.
const portalPrefix = "portal:"

// Users map names of the cluster to users of the portal: what follows a prefix is an issuer's
// subject.
type Users []userIssuer

type userIssuer struct{ prefix, issuer string }

// ParseUsers reads a list of PREFIX=ISSUER.
func ParseUsers(list []string) (Users, error) {
	var all Users
	for _, known := range list {
		prefix, issuer, ok := strings.Cut(known, "=")
		u, err := url.Parse(issuer)
		if !ok || err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("%q is not PREFIX=ISSUER, for example oidc:=https://idp.example.com", known)
		}
		all = append(all, userIssuer{prefix, issuer})
	}
	return all, nil
}

// actorNamed returns the actor that an object names: a user of the cluster, or
// portal:ISSUER#SUBJECT. By default, API servers name OpenID Connect users ISSUER#SUBJECT.
func (u Users) actorNamed(name string) lifecycle.Actor {
	rest, portal := strings.CutPrefix(name, portalPrefix)
	if issuer, subject, ok := strings.Cut(rest, "#"); ok && (portal || strings.HasPrefix(issuer, "https://")) {
		return lifecycle.Actor{Issuer: issuer, Subject: subject}
	}
	if portal {
		return lifecycle.Actor{Issuer: rest}
	}
	for _, known := range u {
		if subject, ok := strings.CutPrefix(name, known.prefix); ok && !strings.HasPrefix(name, "system:") {
			return lifecycle.Actor{Issuer: known.issuer, Subject: subject}
		}
	}
	return lifecycle.Actor{Issuer: issuerCluster, Subject: name}
}

func actorName(a lifecycle.Actor) string { return portalPrefix + a.Issuer + "#" + a.Subject }

// owner returns the owner of an Instance; zero if it has none.
func (u Users) owner(o *v1alpha1.Instance) template.Owner {
	w := o.Spec.Owner
	if w == nil {
		return template.Owner{}
	}
	is := template.Owner{Kind: text.Kebab(w.Kind), Issuer: w.Issuer, ID: w.ID, Label: w.Label}
	is.Issuer = cmp.Or(is.Issuer, issuerCluster)
	if is.Kind == template.OwnerUser && is.Issuer == issuerCluster {
		a := u.actorNamed(w.ID)
		is.Issuer = a.Issuer
		is.ID = a.Subject
	}
	return is
}

// ownerOf returns the user who owns an instance, whoever asked for it; zero for others.
func ownerOf(r *lifecycle.Record) lifecycle.Actor {
	if r.Owner.Kind != template.OwnerUser {
		return lifecycle.Actor{}
	}
	return lifecycle.Actor{Issuer: r.Owner.Issuer, Subject: r.Owner.ID}
}

// maybeSame reports whether two actors could be one person; service accounts are none.
func maybeSame(a, b lifecycle.Actor) bool {
	person := func(a lifecycle.Actor) bool {
		return a.Issuer == issuerCluster && a.Subject != "" && !strings.HasPrefix(a.Subject, "system:serviceaccount:")
	}
	differ := a.Issuer != b.Issuer && a.Issuer != "" && b.Issuer != ""
	return differ && (person(a) || person(b))
}
