// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"cmp"
	"context"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// Keys of a Secret: a GitHub App's as OpenDepot's, ssh as kubernetes.io/ssh-auth.
const (
	keyToken    = "token"
	keyUsername = "username"
	keyAppID    = "githubAppID"
	keyInstall  = "githubInstallID"
	keyAppKey   = "githubPrivateKey"
	keySSH      = corev1.SSHAuthPrivateKey
	keyKnown    = "known_hosts"
)

// origins returns an entry's access; its Secret is never kept.
func (r *entries) origins(ctx context.Context, e *entry, ns *metav1.PartialObjectMetadata) (supply.Origins, error) {
	addresses := r.addresses(ns)
	may := func(it addr.Item) bool { return isPermitted(addresses, it) }
	if e.spec.Auth == nil {
		return r.strictAccess(ctx, supply.TenantSecret{}, may)
	}
	if err := r.mayRead(ns); err != nil {
		return supply.Origins{}, &secretError{err}
	}
	name := e.spec.Auth.SecretRef.Name
	var secret corev1.Secret
	if err := r.reader.Get(ctx, client.ObjectKey{Namespace: e.GetNamespace(), Name: name}, &secret); err != nil {
		if apierrors.IsForbidden(err) {
			err = cmp.Or(fluxobj.Bind(ctx, r.Client, ns.Name), err) // the next try can read it
		}
		return supply.Origins{}, &secretError{err}
	}
	credential, err := credentialOf(&secret)
	if err != nil {
		return supply.Origins{}, err
	}
	return r.strictAccess(ctx, credential, may)
}

func (r *entries) strictAccess(ctx context.Context, secret supply.TenantSecret, may func(addr.Item) bool) (supply.Origins, error) {
	from, err := r.Origins(ctx, secret, may)
	if err != nil {
		return supply.Origins{}, refusalProblem(err)
	}
	return strictOrigins(from), nil
}

// credentialOf reads a Secret whose annotation names its hosts: else anyone with a Module could
// send any Secret anywhere.
func credentialOf(secret *corev1.Secret) (supply.TenantSecret, error) {
	var c supply.TenantSecret
	c.Hosts = strings.FieldsFunc(secret.Annotations[v1alpha1.AnnotationUse], func(r rune) bool { return r == ',' || r == ' ' })
	if len(c.Hosts) == 0 || secret.Type == corev1.SecretTypeServiceAccountToken || isMade(secret) {
		return c, &verdict.Problem{Reason: v1alpha1.ReasonSecretNotAllowed, Message: fmt.Sprintf(
			"Secret %s does not allow this use: annotate it with %s=HOST, the host of the origin, such as github.com", secret.Name, v1alpha1.AnnotationUse)}
	}
	text := func(key string) string { return strings.TrimSpace(string(secret.Data[key])) }
	c.Token = text(keyToken)
	c.Username = text(keyUsername)
	var err error
	switch {
	case text(keyAppID) != "":
		c.App, err = appOf(text)
	case text(keySSH) != "":
		c.SSH, err = upstream.ParseSSHKey(secret.Data[keySSH], secret.Data[keyKnown])
	case c.Token == "":
		err = fmt.Errorf("it has none of the keys %s, %s and %s", keyToken, keyAppID, keySSH)
	}
	if err != nil {
		return c, &verdict.Problem{Reason: v1alpha1.ReasonInvalid, Message: fmt.Sprintf("Secret %s: %v", secret.Name, err)}
	}
	return c, nil
}

// appOf reads a GitHub App. The key is PEM, or base64 of it.
func appOf(text func(key string) string) (*upstream.App, error) {
	id, err := strconv.ParseInt(text(keyAppID), 10, 64)
	if err != nil {
		return nil, errors.New(keyAppID + " is not a number")
	}
	installation, err := strconv.ParseInt(text(keyInstall), 10, 64)
	if err != nil {
		return nil, errors.New(keyInstall + " is not a number")
	}
	src := []byte(text(keyAppKey))
	if decoded, err := base64.StdEncoding.DecodeString(string(src)); err == nil {
		src = decoded
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(src)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New(keyAppKey + " is not an RSA key in PEM")
	}
	return &upstream.App{ID: id, Installation: installation, Key: key}, nil
}
