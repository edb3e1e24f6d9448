// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// trying reports whether the operator is still working on an object.
func trying(o client.Object) bool {
	list, _ := conditions(o)
	return meta.IsStatusConditionTrue(list, v1alpha1.ConditionReconciling) && !stalled(o)
}

// TestRegistryThatIsDown checks recovery when the registry comes back after some tries, which are logged once.
func TestRegistryThatIsDown(t *testing.T) {
	s := newNet(t, "1.0.0")
	s.in.close(ocitest.Refuse)
	m := s.module(s.ns, "m", nil)
	s.says(m, false, v1alpha1.ReasonFailed)
	logged := func() int { return strings.Count(s.log.String(), "a run failed") }
	s.until("it is logged", func() (bool, any) { return logged() > 0, nil })
	revision, before := m.ResourceVersion, s.runs.Load()
	s.until("tried again", func() (bool, any) { return s.runs.Load() >= before+2, nil })
	s.read(m)
	if !trying(m) || m.ResourceVersion != revision {
		t.Errorf("after more tries: %+v", m)
	}
	must.Equal(t, "times that it is logged", logged(), 1)
	s.in.open()
	s.says(m, true, v1alpha1.ReasonSynced)
}

// TestOriginAtItsLimit checks that no try follows before the pause of a limit is over.
//
// Shows: operator 6
func TestOriginAtItsLimit(t *testing.T) {
	s := newNet(t, "1.0.0")
	s.out.close(ocitest.Status(http.StatusTooManyRequests, 1800))
	m := s.module(s.ns, "m", nil)
	s.says(m, false, v1alpha1.ReasonRateLimited)
	if !trying(m) {
		t.Errorf("%+v", m.Status)
	}
	// A second Module of the origin must wait, too; a third one has a credential.
	runs, asked, revision := s.runs.Load(), s.out.asked.Load(), m.ResourceVersion
	second := s.module(s.ns, "second", func(m *v1alpha1.Module) { m.Spec.Address = "net/other/aws" })
	s.says(second, false, v1alpha1.ReasonRateLimited)
	if !trying(second) || second.Status.LastHandledRequest != "" {
		t.Errorf("%+v", second.Status)
	}
	third := s.module(s.ns, "third", func(m *v1alpha1.Module) {
		m.Spec.Address, m.Spec.Auth = "net/third/aws", &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "none"}}
	})
	s.says(third, false, v1alpha1.ReasonSecretMissing)
	s.read(m)
	if s.runs.Load() != runs || s.out.asked.Load() != asked || m.ResourceVersion != revision {
		t.Errorf("%d more runs, %d more requests, revision %s after %s", s.runs.Load()-runs, s.out.asked.Load()-asked, m.ResourceVersion, revision)
	}
	s.out.open()
	s.again(m)
	s.says(m, true, v1alpha1.ReasonSynced)
}

// TestSourcesThatAreRefused checks that refused sources get no request, and no second try.
//
// Shows: kinds 8
func TestSourcesThatAreRefused(t *testing.T) {
	s := newNet(t)
	for name, source := range map[string]string{
		"ours": "oci://" + s.fill + "/p/modules/theirs/vpc/aws", "ssh": "git::ssh://git@example.com/a/b.git",
		"file": "git::file:///etc", "path": "./modules/vpc", "ext": "git::ext::sh -c id", "http": "git::http://example.com/a/b.git", "private": "git::https://169.254.169.254/a/b.git", "registry": "oci://169.254.169.254/a/b",
	} {
		m := s.module(s.ns, name, func(m *v1alpha1.Module) { m.Spec.Address, m.Spec.Source = "net/"+name+"/aws", source })
		s.until(name+" refused", func() (bool, any) { s.read(m); return stalled(m), m.Status })
		list, _ := conditions(m)
		if c := meta.FindStatusCondition(list, v1alpha1.ConditionReady); c.Reason != v1alpha1.ReasonSourceNotAllowed && c.Reason != v1alpha1.ReasonInvalid {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestSecretsHaveToAgree lets a Module name Secrets that allow no host or hold no
// credentials, and one that allows the origin.
//
// Shows: kinds 8 | an object gets nothing from a Secret that does not permit it; a source by
// `http`, `file`, a path, `ext::`, inside the cluster or behind a redirect there, or a module of
// another tenant in our registry, is refused, and nothing is sent
func TestSecretsHaveToAgree(t *testing.T) {
	const token = "t0ken-that-nobody-sees"
	s := newNet(t, "1.0.0")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "forge"}, Data: map[string][]byte{"token": []byte(token)}}
	m := s.module(s.ns, "m", func(m *v1alpha1.Module) {
		m.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "forge"}}
	})
	s.says(m, false, v1alpha1.ReasonSecretMissing)
	if !trying(m) {
		t.Errorf("%+v", m.Status)
	}
	must.Succeed(t, s.Create(t.Context(), secret))
	message := s.says(m, false, v1alpha1.ReasonSecretNotAllowed)
	if want := "Secret forge does not allow this use: annotate it with okara.dev/use="; !strings.HasPrefix(message, want) || !stalled(m) {
		t.Errorf("%q, stalled %t", message, stalled(m))
	}
	if s.runs.Load() != 0 || s.out.asked.Load() != 0 {
		t.Errorf("%d runs, %d requests", s.runs.Load(), s.out.asked.Load())
	}
	sent := func() bool {
		s.out.mu.Lock()
		defer s.out.mu.Unlock()
		return slices.Contains(s.out.headers, "Bearer "+token)
	}
	use := func(hosts string) {
		s.change(secret, func() { metav1.SetMetaDataAnnotation(&secret.ObjectMeta, v1alpha1.AnnotationUse, hosts) })
		s.again(m)
	}
	use("example.com")
	if sent() {
		t.Error("the token was sent to a host that the Secret does not name")
	}
	s.out.close(ocitest.Status(http.StatusForbidden, 0))
	use(s.origin)
	if stalled(m) {
		t.Errorf("an origin that says no: %+v", m.Status)
	}
	s.out.open()
	s.again(m)
	s.says(m, true, v1alpha1.ReasonSynced)
	s.stop()
	var events eventsv1.EventList
	must.Succeed(t, s.List(t.Context(), &events, client.InNamespace(s.ns)))
	for what, v := range map[string]any{"status": m, "events": events, "Versions": s.versions()} {
		if text, err := json.Marshal(v); err != nil || strings.Contains(string(text), token) {
			t.Errorf("%s show the token, or %v", what, err)
		}
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log shows the token")
	}
}

// TestASlowOriginHoldsUpNobodyElse lets one namespace, with more Modules than slots, wait
// for an origin that does not answer. Another namespace must continue.
//
// Shows: operator 6
func TestASlowOriginHoldsUpNobodyElse(t *testing.T) {
	s := newSite(t, nil)
	other := s.namespace(nil)
	s.publish("1.0.0")
	fast := strings.Replace(s.origin, "127.0.0.1", "localhost", 1)
	s.alsoInside = []string{fast}
	release := make(chan struct{})
	var hanging atomic.Int64
	s.out.close(func(r *http.Request, base http.RoundTripper) (*http.Response, error) {
		if r.URL.Host != fast {
			hanging.Add(1)
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return base.RoundTrip(r)
	})
	var slow []*v1alpha1.Module
	for i := range 30 {
		slow = append(slow, s.module(s.ns, fmt.Sprint("m", i), func(m *v1alpha1.Module) { m.Spec.Address = fmt.Sprintf("%s/m%d/aws", s.ns, i) }))
	}
	s.start()
	s.until("runs of the slow origin", func() (bool, any) { return hanging.Load() > 0, nil })
	m := s.module(other, "m", func(m *v1alpha1.Module) {
		m.Spec.Address, m.Spec.Source = other+"/vpc/aws", "oci://"+fast+"/p/modules/"+vpc
	})
	s.says(m, true, v1alpha1.ReasonSynced)
	if n := hanging.Load(); n > 4 {
		t.Errorf("%d requests to the slow origin at a time", n)
	}
	close(release)
	for _, m := range slow {
		s.says(m, true, v1alpha1.ReasonSynced)
	}
}

// TestSuspendedModulesAreHeld suspends a Module and a Depot, which stay Ready, of the generation that
// ran, and then changes the deletion policy, which must take effect. What never ran is not Ready, and
// a request stays unhandled.
//
// Shows: operator 8 | a suspended object keeps its deletion policy
func TestSuspendedModulesAreHeld(t *testing.T) {
	s := newNet(t, "1.0.0")
	m := s.module(s.ns, "m", nil)
	s.says(m, true, v1alpha1.ReasonSynced)
	s.change(m, func() {
		m.Spec.Suspend, m.Spec.DeletionPolicy, m.Spec.Pin = true, v1alpha1.DeletionYank, []string{"9.9.9"}
	})
	s.until("held", func() (bool, any) { s.read(m); return len(m.Finalizers) > 0, m })
	never := s.module(s.ns, "never", func(m *v1alpha1.Module) { m.Spec.Address, m.Spec.Suspend = s.ns+"/never/aws", true })
	s.says(never, false, v1alpha1.ReasonSuspended)
	d := &v1alpha1.Depot{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "d"}, Spec: v1alpha1.DepotSpec{Modules: []v1alpha1.ModuleEntry{{Address: s.ns + "/kept/aws", Source: s.source()}}}}
	must.Succeed(t, s.Create(t.Context(), d))
	s.says(d, true, v1alpha1.ReasonSynced)
	s.change(d, func() {
		d.Spec.Suspend = true
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AnnotationRequest, "now")
	})
	kept := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: s.ns + ".kept.aws"}}
	s.until("its entry is suspended", func() (bool, any) { s.read(kept); return kept.Spec.Suspend, kept })
	d2 := &v1alpha1.Depot{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "d2"}, Spec: v1alpha1.DepotSpec{Suspend: true}}
	must.Succeed(t, s.Create(t.Context(), d2))
	s.says(d2, false, v1alpha1.ReasonSuspended)
	for _, o := range []client.Object{m, kept, d} {
		s.read(o)
		list, generation := conditions(o)
		if c := meta.FindStatusCondition(list, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue || generation != 1 || c.ObservedGeneration != 1 || d.Status.LastHandledRequest != "" {
			t.Errorf("%s is suspended: %d, %+v", o.GetName(), generation, c)
		}
	}
	must.Succeed(t, s.Delete(t.Context(), m))
	s.gone(m)
	if s.yanked("1.0.0") == nil {
		t.Error("the version is not yanked")
	}
}
