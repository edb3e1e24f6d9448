// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/registryctl"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// issuer serves an OpenID Connect issuer.
type issuer struct {
	*httptest.Server
	signer jose.Signer
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil))(t)
	i := &issuer{signer: signer}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var doc any = map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
		if r.URL.Path == "/keys" {
			doc = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}}
		}
		_ = json.NewEncoder(w).Encode(doc) // the client may have disconnected
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) token(t *testing.T, subject string, groups ...string) string {
	t.Helper()
	now := time.Now()
	return must.Get(jwt.Signed(i.signer).Claims(map[string]any{
		"iss": i.URL, "aud": "okara", "sub": subject, "groups": groups, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}).Serialize())(t)
}

// frontEnd is an okara serve in its own process.
type frontEnd struct {
	url string
	log buffer
}

// newFrontEnd builds an okara serve and starts it with a configuration.
func newFrontEnd(t *testing.T, config string) *frontEnd {
	t.Helper()
	dir := t.TempDir()
	okara, file := filepath.Join(dir, "okara"), filepath.Join(dir, "okara.hcl")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", okara, "./cmd/okara")
	build.Dir = rig.Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must.Succeed(t, os.WriteFile(file, []byte(config), 0o600))
	f := &frontEnd{}
	cmd := exec.CommandContext(t.Context(), okara, "serve", "--listen", "127.0.0.1:0", "--storage", filepath.Join(dir, "data"), "--config", file)
	cmd.Env, cmd.Stderr = append(os.Environ(), "HOME="+dir), &f.log
	out := must.Get(cmd.StdoutPipe())(t)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
	})
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server ended: %s", f.log.String())
	}
	f.url = strings.TrimSpace(strings.TrimPrefix(first, "listening on "))
	return f
}

// ask requests the versions of a module without any: 404 means that access is allowed.
func (f *frontEnd) ask(t *testing.T, address, token string) int {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+"/v1/modules/"+address+"/versions", nil))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	resp := must.Get(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	return resp.StatusCode
}

// clusterKeys is a file with the keys of the cluster, as kubectl get --raw writes it.
func (s *site) clusterKeys() string {
	s.t.Helper()
	keys := must.Get(s.clientset().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(s.t.Context()))(s.t)
	file := filepath.Join(s.t.TempDir(), "keys.json")
	must.Succeed(s.t, os.WriteFile(file, keys, 0o600))
	return file
}

// podToken returns a service account token, as a kubelet gives it to a pod.
func (s *site) podToken(namespace string) string {
	s.t.Helper()
	accounts := s.clientset().CoreV1().ServiceAccounts(namespace)
	must.Get(accounts.Create(s.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "ci"}}, metav1.CreateOptions{}))(s.t)
	token := must.Get(accounts.CreateToken(s.t.Context(), "ci", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"okara"}}}, metav1.CreateOptions{}))(s.t)
	return token.Status.Token
}

// TestRulesCountInTheFrontEnd checks that a new rule takes effect in an okara serve that
// reads the ConfigMap as a file, as a kubelet mounts it. After a broken file the earlier
// rules stay.
//
// Shows: operator 3
// Shows: operator 4 | pods read with the tokens of their service accounts; the keys of an issuer
// come from a file, which is changed, corrupted and deleted, or are fetched from a server with a
// private certificate authority
func TestRulesCountInTheFrontEnd(t *testing.T) {
	s := newSite(t, nil)
	issuer := newIssuer(t)
	s.issuers = []string{issuer.URL, rig.Issuer}
	s.start()
	file := filepath.Join(t.TempDir(), "rules.json")
	put := func(text string) {
		must.Succeed(t, os.WriteFile(file+".new", []byte(text), 0o600))
		must.Succeed(t, os.Rename(file+".new", file))
	}
	mount := func() {
		m := s.rulesMap()
		s.read(m)
		put(m.Data[registryctl.RulesKey])
	}
	s.rulesAre(`{"rules":[]}`)
	mount()
	front := newFrontEnd(t, fmt.Sprintf("rules_file = %q\nissuer %q {\n  audiences = [\"okara\"]\n}\nissuer %q {\n  audiences = [\"okara\"]\n  jwks_file = %q\n}\n", file, issuer.URL, rig.Issuer, s.clusterKeys()))
	alice, bob := issuer.token(t, "alice", "people"), issuer.token(t, "bob", "others")
	own := s.ns + "/vpc/aws"
	if got := front.ask(t, own, alice); got != http.StatusForbidden {
		t.Fatalf("before there is a rule: %d", got)
	}

	r := s.rule(s.ns, "readers", func(r *v1alpha1.AccessRuleSpec) { r.Issuer = issuer.URL }, v1alpha1.Right("read:module:"+s.ns+"/**"))
	pods := s.rule(s.ns, "pods", func(r *v1alpha1.AccessRuleSpec) {
		r.Issuer, r.Groups, r.Claims = rig.Issuer, nil, map[string]v1alpha1.ClaimGlob{"sub": v1alpha1.ClaimGlob("system:serviceaccount:" + s.ns + ":*")}
	}, v1alpha1.Right("read:module:"+s.ns+"/**"))
	s.says(pods, true, v1alpha1.ReasonSynced)
	beyond := s.rule(s.ns, "beyond", nil, "read:module:**")
	s.says(r, true, v1alpha1.ReasonSynced)
	s.says(beyond, false, v1alpha1.ReasonAddressNotAllowed)
	mount()
	s.until("a new rule counts", func() (bool, any) { return front.ask(t, own, alice) == http.StatusNotFound, front.log.String() })
	must.Equal(t, "a service account of the namespace", front.ask(t, own, s.podToken(s.ns)), http.StatusNotFound)
	for what, got := range map[string]int{
		"another person": front.ask(t, own, bob), "another address": front.ask(t, "net/vpc/aws", alice), "a service account elsewhere": front.ask(t, own, s.podToken(s.operatorNamespace)),
	} {
		must.Equal(t, what, got, http.StatusForbidden)
	}

	put(`{"rules": [{"name": "all", "allow": ["read:module:**"]}`)
	s.until("a broken file is told", func() (bool, any) {
		return strings.Contains(front.log.String(), "the rules file was not reloaded"), front.log.String()
	})
	if own, other := front.ask(t, own, alice), front.ask(t, "net/vpc/aws", alice); own != http.StatusNotFound || other != http.StatusForbidden {
		t.Errorf("a broken file: %d and %d, want the old rules", own, other)
	}

	for _, r := range []*v1alpha1.AccessRule{r, pods} {
		must.Succeed(t, s.Delete(t.Context(), r))
	}
	s.rulesAre(`{"rules":[]}`)
	mount()
	s.until("a rule that is gone does not count", func() (bool, any) { return front.ask(t, own, alice) == http.StatusForbidden, front.log.String() })
}
