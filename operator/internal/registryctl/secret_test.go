// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestCredentialOfASecret checks that a Secret must name the hosts and have a credential.
//
// Shows: operator 11 | a Secret must permit its use, and is never shown
func TestCredentialOfASecret(t *testing.T) {
	_, key := must.GetBoth(ed25519.GenerateKey(nil))(t)
	der := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	ssh := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	for _, c := range []struct {
		name, use string
		kind      corev1.SecretType
		data      map[string]string
		wrong     string // "": it is accepted
	}{
		{"token", "git.example.com", "", map[string]string{keyToken: "t"}, ""},
		{"ssh", "git.example.com", corev1.SecretTypeSSHAuth, map[string]string{keySSH: ssh, keyKnown: ""}, ""},
		{"no key", "git.example.com", corev1.SecretTypeSSHAuth, map[string]string{keySSH: "secret-text"}, "not a PEM private key"},
		{"known hosts", "git.example.com", corev1.SecretTypeSSHAuth, map[string]string{keySSH: ssh, keyKnown: "git.example.com ssh-ed25519 secret-text"}, "the known hosts"},
		{"nothing", "git.example.com", "", map[string]string{"password": "secret-text"}, "none of the keys token, githubAppID and ssh-privatekey"},
		{"it does not agree", "", "", map[string]string{keyToken: "secret-text"}, "annotate it with okara.dev/use=HOST"},
		{"an account", "git.example.com", corev1.SecretTypeServiceAccountToken, map[string]string{keyToken: "secret-text"}, "does not allow this use"},
	} {
		t.Run(c.name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{v1alpha1.AnnotationUse: c.use}}, Type: c.kind, Data: map[string][]byte{}}
			for key, value := range c.data {
				secret.Data[key] = []byte(value)
			}
			got, err := credentialOf(secret)
			if c.wrong == "" {
				if err != nil || (got.SSH != nil) != (c.data[keySSH] != "") || got.Token != c.data[keyToken] {
					t.Errorf("%+v, %v", got, err)
				}
			} else if _, ok := asProblem(err); !ok || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "secret-text") {
				t.Errorf("%v, want %q", err, c.wrong)
			}
		})
	}
}
