// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// refusingRepo opens a repository of a registry with rules for refusals.
func refusingRepo(t *testing.T, rules ocitest.Refusals, name string, c oci.CredentialFunc) *oci.Repo {
	t.Helper()
	return must.Get(oci.OpenRepo(ocitest.NewRefusing(t, rules).Host+"/"+name, oci.Options{PlainHTTP: true, Credential: c, Retry: oci.Retry{MaxAttempts: 1}}))(t)
}

// TestDeniedAsUnauthorized checks that a 401 to a valid password, as Harbor
// answers for a missing right or project, is ErrDenied with the registry's
// message; a wrong password is not.
//
// Shows: rules 3
func TestDeniedAsUnauthorized(t *testing.T) {
	rules := ocitest.Refusals{Projects: map[string][]string{"infra": {"pull"}}}
	for _, test := range []struct {
		name, repository string
		login            oci.CredentialFunc
		want             error
		text             string
	}{
		{"missing right", "infra/state", login("robot", "secret"), oci.ErrDenied, "unauthorized to access repository: infra/state, action: push"},
		{"missing project", "nope/state", login("robot", "secret"), oci.ErrDenied, "project nope not found"},
		{"wrong password", "infra/state", login("robot", "wrong"), oci.ErrUnauthenticated, ""},
		{"nobody", "infra/state", nil, oci.ErrUnauthenticated, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := refusingRepo(t, rules, test.repository, test.login)
			for i, err := range []error{
				r.PushBlob(t.Context(), oci.EmptyBlob()),
				r.PushBlob(t.Context(), oci.EmptyBlob()), // now the client knows that Basic is required
				resolve(t, r), snapshot(t, r),
			} {
				reads := i > 1
				if reads && test.name == "missing right" {
					if !errors.Is(err, oci.ErrNotFound) {
						t.Errorf("read %d: %v", i, err)
					}
					continue
				}
				if !errors.Is(err, test.want) || !reads && !strings.Contains(err.Error(), test.text) {
					t.Errorf("request %d: %v, want %v", i, err, test.want)
				}
				if reads && test.name == "missing project" && !strings.Contains(err.Error(), test.text) {
					t.Errorf("read %d does not say why: %v", i, err)
				}
			}
		})
	}
}

func resolve(t *testing.T, r *oci.Repo) error {
	_, err := r.Resolve(t.Context(), "v1")
	return err
}

func snapshot(t *testing.T, r *oci.Repo) error {
	_, err := r.Snapshot(t.Context())
	return err
}

// TestRefusedByRules checks that the refusals by a registry's rules are distinguished.
func TestRefusedByRules(t *testing.T) {
	g := ocitest.NewRefusing(t, ocitest.Refusals{})
	r := must.Get(oci.OpenRepo(g.Host+"/test", oci.Options{PlainHTTP: true}))(t)
	m := mustPush(t, r, "v1", "one")
	other := mustPush(t, r, "v2", "two")
	g.Refuse(ocitest.Refusals{Immutable: []string{"v*"}, Exempt: []string{"v2"}})
	if err := r.PutTag(t.Context(), "v1", other); !errors.Is(err, oci.ErrExists) {
		t.Errorf("move an immutable tag: %v", err)
	}
	if err := r.PutTag(t.Context(), "v2", m); err != nil {
		t.Errorf("move an exempted tag: %v", err)
	}
	if err := r.Untag(t.Context(), "v1"); !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("delete an immutable tag: %v", err)
	}
	if err := r.Delete(t.Context(), m.Descriptor); !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("delete what an immutable tag names: %v", err)
	}
	g.Refuse(ocitest.Refusals{NoUpdate: true, NoUntag: true})
	if err := r.PutTag(t.Context(), "v1", other); !errors.Is(err, oci.ErrDenied) {
		t.Errorf("move a tag without the right to: %v", err)
	}
	if err := r.Untag(t.Context(), "v1"); !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("delete a tag where only digests go: %v", err)
	}
	g.Refuse(ocitest.Refusals{ContentTrust: true})
	_, fetched := r.Fetch(t.Context(), "v1")
	for _, err := range []error{fetched, resolve(t, r), r.CheckHandedOut(t.Context(), m.Digest)} {
		if !errors.Is(err, oci.ErrDenied) || !oci.WithheldByPolicy(err) || !strings.Contains(err.Error(), "not signed by cosign") {
			t.Errorf("read what is not signed: %v", err)
		}
	}
	if _, err := r.Fetch(t.Context(), "none"); !errors.Is(err, oci.ErrNotFound) || oci.WithheldByPolicy(err) {
		t.Errorf("read what is not there: %v", err)
	}
}
