// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// Keys in the objects that are created for a run.
const (
	keyToken  = "token"
	keyConfig = "okara.tfrc"
	keyCA     = "ca.crt"
)

// checkMine returns nil if an object was created for the object of a run.
func (a *Access) checkMine(o client.Object, r Run) error {
	if fluxobj.Ours(o, r.UID) {
		return nil
	}
	return &fluxobj.TakenError{Kind: "Secret", Key: client.ObjectKeyFromObject(o)}
}

// writeObjects writes everything except the record.
func (a *Access) writeObjects(ctx context.Context, r Run, token string) (Ready, error) {
	ready := a.Names(r)
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
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.RunNamespace, Name: name}}
		_, err := fluxobj.Write(ctx, a.o.Client, s, r.UID, func(s *corev1.Secret) error {
			s.Type = kind
			s.Data = data
			return nil
		})
		versions = append(versions, s.ResourceVersion)
		return err
	}
	if err := secret(r.secret(), corev1.SecretTypeOpaque, map[string][]byte{keyToken: []byte(token)}); err != nil {
		return ready, err
	}
	if err := secret(r.configName(), corev1.SecretTypeOpaque, map[string][]byte{keyConfig: config}); err != nil {
		return ready, err
	}
	if pull != nil {
		if err := secret(r.pull(), corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: pull}); err != nil {
			return ready, err
		}
	}
	if len(a.o.CA) > 0 {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.RunNamespace, Name: r.caBundle()}}
		if _, err := fluxobj.Write(ctx, a.o.Client, m, r.UID, func(m *corev1.ConfigMap) error {
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

// pullSecret returns the contents for a run's source, or nil.
func (a *Access) pullSecret(ctx context.Context, r Run, token string) ([]byte, error) {
	names := a.Names(r)
	switch {
	case names.PullSecret == "":
		return nil, nil
	case a.hasModule(r):
		return json.Marshal(map[string]any{"auths": map[string]any{a.FrontEnd.Host: map[string]string{"username": "run", "password": token}}})
	}
	s := &corev1.Secret{}
	err := a.o.Client.Get(ctx, a.o.PullSecret, s)
	if apierrors.IsNotFound(err) { // callers would take NotFound for the object of the run
		return nil, fmt.Errorf("the pull Secret of the operator, %s, does not exist", a.o.PullSecret.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("the pull Secret of the operator: %w", err)
	}
	b, ok := s.Data[corev1.DockerConfigJsonKey]
	if !ok {
		return nil, fmt.Errorf("the pull Secret of the operator, %s, has no %s: create it with kubectl create secret docker-registry", a.o.PullSecret.Name, corev1.DockerConfigJsonKey)
	}
	return b, nil
}

// Clean removes what was made for a run, but record and state, and reports whether all is gone.
func (a *Access) Clean(ctx context.Context, r Run) (gone bool, err error) {
	gone = true
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: r.RunNamespace, Name: name} }
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: meta(r.configName())}, &corev1.Secret{ObjectMeta: meta(r.pull())}, &corev1.Secret{ObjectMeta: meta(r.caBundle())},
		&corev1.ConfigMap{ObjectMeta: meta(r.caBundle())}, &corev1.Secret{ObjectMeta: meta(r.secret())},
	} {
		removed, err := fluxobj.Delete(ctx, a.o.Client, o, r.UID)
		if err != nil {
			return false, err
		}
		gone = gone && removed
	}
	return gone, nil
}

// cliConfig returns a run's CLI configuration, parsed: a warning would break it (T11).
func (a *Access) cliConfig(token string) ([]byte, error) {
	base := a.FrontEnd.String()
	host := a.FrontEnd.Host
	var b strings.Builder
	if a.FrontEnd.Scheme == "http" || a.FrontEnd.Path != "" {
		fmt.Fprintf(&b, "host %q {\n  services = {\n    \"modules.v1\"   = %q\n    \"providers.v1\" = %q\n  }\n}\n", host, base+"/v1/modules/", base+"/v1/providers/")
	}
	fmt.Fprintf(&b, "credentials %q {\n  token = %q\n}\n", host, token) // for the mirror, the host name in its URL counts
	if a.FrontEnd.Scheme == "https" {                                   // the tools require https for a mirror
		fmt.Fprintf(&b, "provider_installation {\n  network_mirror {\n    url     = %q\n    exclude = [%q]\n  }\n  direct {}\n}\n", base+"/mirror/", host+"/*/*")
	}
	if _, wrong := syntax.Parse([]byte(b.String()), keyConfig); wrong.HasErrors() {
		return nil, fmt.Errorf("the CLI configuration of runs is invalid: %s", wrong[0].Summary) // the cause would quote the token
	}
	return []byte(b.String()), nil
}
