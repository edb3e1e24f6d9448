// SPDX-License-Identifier: Apache-2.0

package runaccess_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

// issuing is an issuer, and a front-end that reads its public keys from a file.
type issuing struct {
	client.Client
	*runaccess.Issuer
	t                 *testing.T
	operatorNamespace string
	file              string
	guard             *access.Guard
	clock             *clocktesting.FakeClock
}

func newIssuing(t *testing.T) *issuing {
	t.Helper()
	c := must.Get(client.New(cluster.Admin(t), client.Options{}))(t)
	s := &issuing{Client: c, t: t, operatorNamespace: cluster.Namespace(t, nil).Name, file: filepath.Join(t.TempDir(), "jwks.json"), clock: clocktesting.NewFakeClock(time.Now())}
	s.restart()
	must.Succeed(t, s.Keep(t.Context()))
	s.mount()
	ring := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	policy := access.Policy{Issuers: []access.Issuer{{URL: s.Name(), Audiences: []string{"okara"}, KeysFile: s.file}}}
	for _, allow := range []rights.Scope{
		{Action: rights.Write, Kind: addr.KindState, Glob: "prod.{namespace}/{workspace}"}, {Action: rights.Read, Kind: addr.KindModule, Glob: "{module...}"},
	} {
		policy.Rules = append(policy.Rules, access.Rule{Name: allow.String(), Issuer: s.Name(), Allow: []rights.Scope{allow}})
	}
	s.guard = must.Get(access.New(access.Options{Keyring: ring, Now: s.clock.Now, Policy: policy}))(t)
	return s
}

// restart creates an issuer without the state of the previous one.
func (s *issuing) restart() {
	s.t.Helper()
	i := must.Get(runaccess.NewIssuer(runaccess.IssuerOptions{Client: s.Client, Namespace: s.operatorNamespace, Cluster: "prod", Now: s.clock.Now}))(s.t)
	s.Issuer = i
}

func (s *issuing) configMap() *corev1.ConfigMap {
	s.t.Helper()
	m := &corev1.ConfigMap{}
	must.Succeed(s.t, s.Get(s.t.Context(), client.ObjectKey{Namespace: s.operatorNamespace, Name: runaccess.IssuerConfigMap}, m))
	return m
}

// mount updates the file like a kubelet that mounts the ConfigMap.
func (s *issuing) mount() {
	s.t.Helper()
	must.Succeed(s.t, os.WriteFile(s.file+".new", []byte(s.configMap().Data[runaccess.IssuerKey]), 0o600))
	must.Succeed(s.t, os.Rename(s.file+".new", s.file))
}

func (s *issuing) token(r runaccess.Run) string {
	s.t.Helper()
	return must.Get(s.Token(s.t.Context(), r))(s.t)
}

// may returns nil if a token may write a state.
func (s *issuing) may(token, name, workspace string) error {
	r := httptest.NewRequest(http.MethodPost, "https://okara.example.com/state/"+name+"/"+workspace, nil)
	r.SetBasicAuth("run", token)
	_, err := s.guard.Allow(r, rights.StateRight(addr.Layout{}, rights.Write, name, workspace))
	return err
}

func run(namespace, workspace string) runaccess.Run {
	return runaccess.Run{Namespace: namespace, UID: "5f0c1b1e-0000-4000-8000-000000000001", Workspace: workspace, Module: "net/vpc/aws"}
}

// TestTokenOpensItsState checks that a token grants only writing the state of its object
// and reading its module.
//
// Shows: kinds 12
func TestTokenOpensItsState(t *testing.T) {
	s := newIssuing(t)
	token := s.token(run("tenant-acme", "vpcs.prod"))
	if err := s.may(token, "prod.tenant-acme", "vpcs.prod"); err != nil {
		t.Errorf("its own state: %v", err)
	}
	for _, other := range [][2]string{{"prod.tenant-acme", "vpcs.test"}, {"prod.tenant-beta", "vpcs.prod"}, {"test.tenant-acme", "vpcs.prod"}, {"prod.tenant-acme.x", "vpcs.prod"}} {
		if err := s.may(token, other[0], other[1]); err == nil || !strings.Contains(err.Error(), "may not") {
			t.Errorf("%v: %v, want a refusal", other, err)
		}
	}
	for module, want := range map[string]bool{"net/vpc/aws": true, "net/vpc/azure": false} {
		r := httptest.NewRequest(http.MethodGet, "https://okara.example.com/v1/modules/"+module+"/versions", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		if _, err := s.guard.Allow(r, rights.Right{Action: rights.Read, Kind: addr.KindModule, Address: module}); (err == nil) != want {
			t.Errorf("module %s: %v", module, err)
		}
	}
	own := must.Get(s.Own(t.Context(), run("tenant-acme", "vpcs.prod")))(t)
	if err := s.may(own, "prod.tenant-acme", "vpcs.prod"); err != nil {
		t.Errorf("the operator's own: %v", err)
	}
	if left, err := s.Left(t.Context(), own, run("tenant-acme", "vpcs.prod")); left > 0 || err != nil {
		t.Errorf("the operator's own counts as one of a run: %v", err)
	}
}

// TestTokenRefusesClaims checks that claims which a rule could match with more than one
// name are not signed, and grant nothing if they are signed elsewhere.
//
// Shows: kinds 12 | claims with a `/`, a glob or an empty value are not signed; a token opens
// neither another state nor that of a deleted object; keys change under load; rules of tenants give
// no rights to states, and no claim widens them
func TestTokenRefusesClaims(t *testing.T) {
	s := newIssuing(t)
	for _, bad := range []string{"", "*", "**", "a/b", "../b", ".", "a b", "A", strings.Repeat("a", 300), "a\nb", "{namespace}"} {
		good := run("tenant-acme", "vpcs.prod")
		changes := map[string]func(*runaccess.Run){
			"namespace": func(r *runaccess.Run) { r.Namespace = bad },
			"workspace": func(r *runaccess.Run) { r.Workspace = bad },
			"uid":       func(r *runaccess.Run) { r.UID = types.UID(bad) },
			"module":    func(r *runaccess.Run) { r.Module = bad },
		}
		for claim, change := range changes {
			r := good
			change(&r)
			if _, err := s.Token(t.Context(), r); err == nil && !(claim == "module" && bad == "") {
				t.Errorf("%s %q is signed", claim, bad)
			}
		}
	}
}

// TestTokenTimes checks that a token is valid from a minute ago for a day, and is renewed
// when less than half of that is left.
//
// Shows: kinds 7
func TestTokenTimes(t *testing.T) {
	s := newIssuing(t)
	r := run("tenant-acme", "vpcs.prod")
	token := s.token(r)
	fresh := func() bool {
		t.Helper()
		left := must.Get(s.Left(t.Context(), token, r))(t)
		return left >= runaccess.RenewBelow
	}
	other := r
	other.UID = "5f0c1b1e-0000-4000-8000-000000000002"
	if left, err := s.Left(t.Context(), token, other); left > 0 || err != nil || !fresh() {
		t.Errorf("good for another object: %s, %v; fresh for its own: %v", left, err, fresh())
	}
	for _, step := range []struct {
		wait        time.Duration
		good, fresh bool
	}{{-time.Minute, true, true}, {12 * time.Hour, true, true}, {2 * time.Minute, true, false}, {12*time.Hour - 2*time.Minute, true, false}, {3 * time.Minute, false, false}} {
		s.clock.Step(step.wait)
		if err := s.may(token, "prod.tenant-acme", "vpcs.prod"); (err == nil) != step.good || fresh() != step.fresh {
			t.Errorf("after %s more: %v, fresh %v", step.wait, err, fresh())
		}
	}
}

// TestRotationUnderLoad issues tokens continuously for two simulated months, while keys
// change, the operator restarts, and the front-end gets the public keys some minutes
// later. Each token is valid for its whole lifetime.
//
// Shows: kinds 12
func TestRotationUnderLoad(t *testing.T) {
	s := newIssuing(t)
	r := run("tenant-acme", "vpcs.prod")
	type made struct {
		token string
		until time.Time
	}
	var living []made
	keys, limit := map[string]bool{}, 0
	for step := range 65 * 8 {
		if step%31 == 0 {
			s.restart()
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 2 {
			wg.Go(func() {
				token, err := s.Token(t.Context(), r)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				living = append(living, made{token, s.clock.Now().Add(runaccess.Lifetime)})
			})
		}
		if step%3 == 0 { // not each time: a kubelet may be late, and so may the operator
			must.Succeed(t, s.Keep(t.Context()))
		}
		wg.Wait()
		s.clock.Step(9 * time.Minute)
		s.mount()
		for _, m := range []made{living[0], living[len(living)-1]} {
			if err := s.may(m.token, "prod.tenant-acme", "vpcs.prod"); err != nil {
				t.Fatalf("step %d: a token good until %s, at %s: %v", step, m.until, s.clock.Now(), err)
			}
		}
		s.clock.Step(3*time.Hour - 9*time.Minute)
		for len(living) > 0 && living[0].until.Before(s.clock.Now().Add(3*time.Hour)) {
			living = living[1:]
		}
		parsed := must.Get(jwt.ParseSigned(living[len(living)-1].token, []jose.SignatureAlgorithm{jose.ES256}))(t)
		keys[parsed.Headers[0].KeyID] = true
		limit = max(limit, strings.Count(s.configMap().Data[runaccess.IssuerKey], `"kid"`))
	}
	if len(keys) != 3 || limit != 2 {
		t.Errorf("%d keys signed, want 3; %d were published at a time, want 2", len(keys), limit)
	}
}

// TestKeysOfOthers are not used, nor quoted.
func TestKeysOfOthers(t *testing.T) {
	s := newIssuing(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.operatorNamespace, Name: runaccess.KeysSecret}}
	put := func(labels map[string]string, text string) {
		t.Helper()
		must.Succeed(t, client.IgnoreNotFound(s.Delete(t.Context(), secret)))
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.operatorNamespace, Name: runaccess.KeysSecret, Labels: labels}, StringData: map[string]string{runaccess.KeysKey: text}}
		must.Succeed(t, s.Create(t.Context(), secret))
		s.restart()
	}
	old := s.token(run("a", "b"))
	put(nil, "[]")
	if err := s.Keep(t.Context()); err == nil || !strings.Contains(err.Error(), "is not okara's") {
		t.Errorf("somebody else's Secret: %v", err)
	}
	fluxobj.Mark(secret, "")
	mark := secret.Labels
	for _, text := range []string{"hush", `[{"jwk":{"kty":"oct","k":"aHVzaA"}}]`, `{"hush":1}`, "[" + strings.Repeat(" ", 20<<10) + "]"} {
		put(mark, text)
		if err := s.Keep(t.Context()); err == nil || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "aHVzaA") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	must.Succeed(t, s.Delete(t.Context(), secret))
	s.restart()
	if left, err := s.Left(t.Context(), old, run("a", "b")); left > 0 || err != nil {
		t.Errorf("a token of the key that was deleted is good: %s, %v", left, err)
	}
	s.mount()
	s.clock.Step(3 * time.Second)
	if err := s.may(old, "prod.a", "b"); err == nil {
		t.Error("a token of the key that was deleted is taken")
	}
	if err := s.may(s.token(run("a", "b")), "prod.a", "b"); err != nil {
		t.Error(err)
	}
}
