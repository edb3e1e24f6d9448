// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/internal/owned"
)

// Keys of what is made for a run.
const (
	keyToken  = "token"
	keyConfig = "okara.tfrc"
	keyCA     = "ca.crt"
)

// mine is nil for what was made for the object of a run.
func (a *Access) mine(o client.Object, r Run) error {
	if owned.Ours(o, r.UID) {
		return nil
	}
	return &owned.TakenError{Kind: "Secret", Key: client.ObjectKeyFromObject(o)}
}

// write writes everything but the record.
func (a *Access) write(ctx context.Context, r Run, token string) (Ready, error) {
	ready := a.where().Names(r)
	config, err := a.cliConfig(token)
	if err != nil {
		return ready, err
	}
	pull, err := a.pullSecret(ctx, r, token)
	if err != nil {
		return ready, err
	}
	versions := []string{}
	secret := func(name string, kind corev1.SecretType, data map[string][]byte) error {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.Home, Name: name}}
		_, err := owned.Write(ctx, a.o.Client, s, r.UID, func(s *corev1.Secret) error {
			s.Type, s.Data = kind, data
			return nil
		})
		versions = append(versions, s.ResourceVersion)
		return err
	}
	if err := secret(r.secret(), corev1.SecretTypeOpaque, map[string][]byte{keyToken: []byte(token)}); err != nil {
		return ready, err
	}
	if err := secret(r.config(), corev1.SecretTypeOpaque, map[string][]byte{keyConfig: config}); err != nil {
		return ready, err
	}
	if pull != nil {
		if err := secret(r.pull(), corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: pull}); err != nil {
			return ready, err
		}
	}
	if len(a.o.CA) > 0 {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Home, Name: r.caBundle()}}
		if _, err := owned.Write(ctx, a.o.Client, m, r.UID, func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{keyCA: string(a.o.CA)}
			return nil
		}); err != nil {
			return ready, err
		}
		versions = append(versions, m.ResourceVersion)
		if ready.CASecret != "" {
			if err := secret(r.caBundle(), corev1.SecretTypeOpaque, map[string][]byte{keyCA: a.o.CA}); err != nil {
				return ready, err
			}
		}
	}
	ready.Request = strings.Join(versions, ".")
	return ready, nil
}

// pullSecret is what the source of a run has in its Secret; nil: it needs none.
func (a *Access) pullSecret(ctx context.Context, r Run, token string) ([]byte, error) {
	names := a.where().Names(r)
	switch {
	case names.PullSecret == "":
		return nil, nil
	case a.where().within(r):
		return json.Marshal(map[string]any{"auths": map[string]any{a.o.FrontEnd.Host: map[string]string{"username": "run", "password": token}}})
	}
	s := &corev1.Secret{}
	if err := a.o.Client.Get(ctx, a.o.PullSecret, s); err != nil {
		return nil, fmt.Errorf("the pull Secret of the operator: %w", err)
	}
	b, ok := s.Data[corev1.DockerConfigJsonKey]
	if !ok {
		return nil, fmt.Errorf("the pull Secret of the operator, %s, has no %s: make it with kubectl create secret docker-registry", a.o.PullSecret.Name, corev1.DockerConfigJsonKey)
	}
	return b, nil
}

// Clean removes what was made for a run, but for its record and state, and reports
// whether all of it is gone. What is somebody else's stays.
func (a *Access) Clean(ctx context.Context, r Run) (gone bool, err error) {
	gone = true
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: r.Home, Name: name} }
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: meta(r.config())}, &corev1.Secret{ObjectMeta: meta(r.pull())}, &corev1.Secret{ObjectMeta: meta(r.caBundle())},
		&corev1.ConfigMap{ObjectMeta: meta(r.caBundle())}, &corev1.Secret{ObjectMeta: meta(r.secret())},
	} {
		one, err := owned.Delete(ctx, a.o.Client, o, r.UID)
		if err != nil {
			return false, err
		}
		gone = gone && one
	}
	return gone, nil
}
