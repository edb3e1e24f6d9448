// SPDX-License-Identifier: Apache-2.0

package runaccess_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/rig"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/statebackend"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// site is an operator's access to an okara serve that keeps states in a registry.
type site struct {
	client.Client
	*runaccess.Access
	t                 *testing.T
	operatorNamespace string // of the operator
	ns                string // of runs
	url               *url.URL
	issuer            *runaccess.Issuer
	states            *rig.States
	clock             *clocktesting.FakeClock
}

func newSite(t *testing.T) *site {
	t.Helper()
	c := must.Get(client.New(cluster.Admin(t), client.Options{}))(t)
	s := &site{
		Client: c, t: t, operatorNamespace: cluster.Namespace(t, nil).Name, ns: cluster.Namespace(t, nil).Name,
		clock: clocktesting.NewFakeClock(time.Now()),
	}
	s.issuer = must.Get(runaccess.NewIssuer(runaccess.IssuerOptions{Client: c, Namespace: s.operatorNamespace, Cluster: "prod", Now: s.clock.Now}))(t)
	s.serve()
	s.restart(nil)
	return s
}

// restart creates an access without the state of the previous one.
func (s *site) restart(change func(*runaccess.Options)) {
	s.t.Helper()
	o := runaccess.Options{Client: s.Client, Issuer: s.issuer, FrontEnd: s.url, Stores: s.states.Store}
	if change != nil {
		change(&o)
	}
	a := must.Get(runaccess.New(o))(s.t)
	s.Access = a
}

// serve answers the http backend as okara serve does, for the issuer's tokens.
func (s *site) serve() {
	s.t.Helper()
	must.Succeed(s.t, s.issuer.Keep(s.t.Context()))
	m := &corev1.ConfigMap{}
	must.Succeed(s.t, s.Get(s.t.Context(), client.ObjectKey{Namespace: s.operatorNamespace, Name: runaccess.IssuerConfigMap}, m))
	s.states = rig.NewStates(s.t, ocitest.New(s.t, ocitest.Quirks{}), s.issuer.Name(), []byte(m.Data[runaccess.IssuerKey]), s.clock.Now)
	s.url = s.states.URL
}

// store opens the repository of a state as the operator does.
func (s *site) store(name string) *statebackend.Store {
	s.t.Helper()
	return must.Get(s.states.Store(name))(s.t)
}

func (s *site) run(uid string) runaccess.Run {
	return runaccess.Run{
		Namespace: "acme", UID: types.UID(uid), Workspace: "vpcs.prod", Module: "net/vpc/aws",
		RunNamespace: s.ns, Name: "vpc-prod", Repository: "registry.example.com/platform/modules/net/vpc/aws",
	}
}

func (s *site) prepare(r runaccess.Run) runaccess.Ready {
	s.t.Helper()
	return must.Get(s.Prepare(s.t.Context(), r))(s.t)
}

func (s *site) data(name, key string) string {
	s.t.Helper()
	var secret corev1.Secret
	must.Succeed(s.t, s.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, &secret))
	return string(secret.Data[key])
}

// ask sends a request of a run, with its token.
func (s *site) ask(method, query, body string) int {
	s.t.Helper()
	r := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.url.String()+"/state/prod.acme/vpcs.prod"+query, strings.NewReader(body)))(s.t)
	r.SetBasicAuth("run", s.data("vpc-prod-okara-run", "token"))
	resp := must.Get(http.DefaultClient.Do(r))(s.t)
	defer resp.Body.Close()
	return resp.StatusCode
}

func state(serial int, resources string) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"a","outputs":{},"resources":[%s]}`, serial, resources)
}

const resource = `{"mode":"managed","type":"terraform_data","name":"a","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"schema_version":0,"attributes":{}}]}`

// apply writes a state like a run.
func (s *site) apply(serial int, resources string) {
	s.t.Helper()
	if got := s.ask(http.MethodPost, "", state(serial, resources)); got != http.StatusOK {
		s.t.Fatalf("a write is %d", got)
	}
}

// TestPrepare creates what a run needs. A second call writes nothing.
//
// Shows: traps T11
func TestPrepare(t *testing.T) {
	s := newSite(t)
	r := s.run("1")
	ready := s.prepare(r)
	must.Equal(t, "the state", s.ask(http.MethodGet, "", ""), http.StatusNoContent)
	if want := s.url.String() + "/state/prod.acme/vpcs.prod"; ready.State.Address != want || ready.PullSecret != "" || ready.State.CA != nil {
		t.Errorf("prepared %+v", ready)
	}
	token, config := s.data("vpc-prod-okara-run", "token"), s.data(ready.CLIConfigSecret, "okara.tfrc")
	if !strings.Contains(config, token) || !strings.Contains(config, s.url.String()+"/v1/modules/") {
		t.Errorf("the CLI configuration has %d bytes, and not the token or the services", len(config))
	}
	again := s.prepare(r)
	if again.Request != ready.Request || again.Renew > 12*time.Hour || again.Renew < 11*time.Hour {
		t.Errorf("a second time: request %s, before %s; renewed after %s", again.Request, ready.Request, again.Renew)
	}

	s.clock.Step(12*time.Hour + time.Minute)
	renewed := s.prepare(r)
	if s.data("vpc-prod-okara-run", "token") == token || renewed.Request == ready.Request {
		t.Error("the token is not renewed, or nobody would hear of it")
	}
	if got := s.ask(http.MethodGet, "", ""); got != http.StatusNoContent {
		t.Errorf("the state is %d with a new token", got)
	}

	if gone, err := s.Clean(t.Context(), r); gone || err != nil {
		t.Errorf("cleaned at once: %v, %v", gone, err)
	}
	if gone, err := s.Clean(t.Context(), r); !gone || err != nil {
		t.Errorf("not gone: %v", err)
	}
}

// TestPrepareElsewhere: a module of a server with its own authority, and one elsewhere by a Secret.
func TestPrepareElsewhere(t *testing.T) {
	s := newSite(t)
	s.restart(func(o *runaccess.Options) { o.CA = []byte("PEM") })
	r := s.run("1")
	r.Repository = s.url.Host + "/modules/net/vpc/aws"
	ready := s.prepare(r)
	if ready.PullSecret == "" || ready.CASecret == "" || ready.State.CA == nil || s.data(ready.CASecret, "ca.crt") != "PEM" {
		t.Errorf("prepared %+v", ready)
	}
	var config struct {
		Auths map[string]struct{ Username, Password string }
	}
	must.Succeed(t, json.Unmarshal([]byte(s.data(ready.PullSecret, corev1.DockerConfigJsonKey)), &config))
	if config.Auths[s.url.Host].Password != s.data("vpc-prod-okara-run", "token") {
		t.Error("the source is not pulled by the token of the run")
	}

	pull := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.operatorNamespace, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)}}
	must.Succeed(t, s.Create(t.Context(), pull))
	s.restart(func(o *runaccess.Options) { o.PullSecret = client.ObjectKeyFromObject(pull) })
	other := s.run("2")
	other.Name, other.Workspace = "vpc-test", "vpcs.test"
	if ready := s.prepare(other); s.data(ready.PullSecret, corev1.DockerConfigJsonKey) != `{"auths":{}}` {
		t.Errorf("prepared %+v", ready)
	}
	beside := s.run("3")
	beside.Name, beside.Workspace, beside.Namespace = "vpc-beside", "vpcs.beside", s.ns
	if ready := s.prepare(beside); ready.PullSecret != "" {
		t.Errorf("beside the object, where tenants read Secrets: %+v", ready)
	}
}

// TestNameTaken checks that an object of another owner with one of our names is left
// alone, and that nothing is written that a run could use.
//
// Shows: operator 18
func TestNameTaken(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"vpc-prod-okara-run", "vpc-prod-okara-cli"} {
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: map[string]string{"okara.dev/managed": "", "okara.dev/uid": "2"}}, Data: map[string][]byte{"token": []byte("theirs")}}
		must.Succeed(t, s.Create(t.Context(), other))
		_, err := s.Prepare(t.Context(), s.run("1"))
		if taken, ok := errors.AsType[*fluxobj.TakenError](err); !ok || taken.Key.Name != name {
			t.Errorf("%s: %v", name, err)
		}
		must.Equal(t, name, s.data(name, "token"), "theirs")
		must.Succeed(t, s.Delete(t.Context(), other))
	}
}

// TestOneOwner checks that a state belongs to one object until that releases it or an
// administrator assigns it to the next one.
//
// Shows: kinds 12
func TestOneOwner(t *testing.T) {
	s := newSite(t)
	old, next := s.run("1"), s.run("2")
	next.Name = "vpc-next" // in reality in its own namespace
	refused := func(what string, err error) {
		t.Helper()
		if _, ok := errors.AsType[*runaccess.StateExistsError](err); !ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.prepare(old)
	_, err := s.Prepare(t.Context(), next)
	refused("there is a record", err)
	s.apply(1, resource)
	if _, ok := errors.AsType[*runaccess.KeptError](s.Release(t.Context(), old)); !ok {
		t.Error("a state with resources is released")
	}
	if err := s.Check(t.Context(), old); err != nil {
		t.Errorf("after that: %v", err)
	}

	next.Adopt = true
	s.prepare(next)
	must.Equal(t, "the earlier owner's run is answered", s.ask(http.MethodGet, "", ""), http.StatusConflict)
	if _, ok := errors.AsType[*runaccess.NotOwnerError](s.Check(t.Context(), old)); !ok {
		t.Error("the earlier owner owns it still")
	}
	s.clock.Step(13 * time.Hour)
	_, err = s.Prepare(t.Context(), old)
	if e, ok := errors.AsType[*runaccess.NotOwnerError](err); !ok || e.Owner != "run:acme/2" {
		t.Errorf("the earlier owner prepares: %v", err)
	}
	if _, ok := errors.AsType[*runaccess.NotOwnerError](s.Release(t.Context(), old)); !ok {
		t.Error("the earlier owner releases it")
	}
}

// TestRelease deletes an empty state. Restoring the object gives no access, and a new
// object of its name starts with an empty state.
//
// Shows: kinds 12
func TestRelease(t *testing.T) {
	s := newSite(t)
	r := s.run("1")
	if err := s.Release(t.Context(), r); err != nil {
		t.Errorf("one that never ran: %v", err)
	}
	s.prepare(r)
	s.apply(1, resource)
	s.apply(2, "")
	if got := s.ask("LOCK", "", `{"ID":"mine","Operation":"apply","Who":"run"}`); got != http.StatusOK {
		t.Fatal(got)
	}
	if _, ok := errors.AsType[*statebackend.LockedError](s.Release(t.Context(), r)); !ok {
		t.Error("released while it is locked")
	}
	if got := s.ask("UNLOCK", "", `{"ID":"mine","Operation":"apply","Who":"run"}`); got != http.StatusOK {
		t.Fatal(got)
	}
	for range 2 {
		must.Succeed(t, s.Release(t.Context(), r))
	}
	for method, body := range map[string]string{http.MethodGet: "", http.MethodPost: state(3, ""), "LOCK": `{"ID":"mine"}`} {
		must.Equal(t, method+": with the token of before", s.ask(method, "", body), http.StatusConflict)
	}
	if held, err := s.store("prod.acme").Held(t.Context(), "vpcs.prod"); held != nil || err != nil {
		t.Errorf("it is locked: %+v, %v", held, err)
	}
	for _, before := range []string{"with its Secrets", "without"} {
		s.clock.Step(13 * time.Hour)
		if e, ok := errors.AsType[*runaccess.NotOwnerError](errOf(s.Prepare(t.Context(), r))); !ok || !e.Deleted {
			t.Errorf("the object that was brought back %s is not refused", before)
		}
		must.Get(s.Clean(t.Context(), r))(t)
	}
	s.prepare(s.run("2"))
	must.Equal(t, "a new object reads", s.ask(http.MethodGet, "", ""), http.StatusNotFound)
}

func errOf(_ runaccess.Ready, err error) error { return err }

// TestReleaseCutOff checks that the lock of an operator that was killed during a release is broken
// by the next one, once it is older than any release. Other holders' locks are kept.
func TestReleaseCutOff(t *testing.T) {
	s := newSite(t)
	r := s.run("1")
	s.prepare(r)
	s.apply(1, "")
	held := func(operation, of string, age time.Duration) string {
		t.Helper()
		b := must.Get(json.Marshal(statebackend.LockInfo{
			ID: "left", Operation: operation, Who: s.issuer.Name(), Info: "state of " + of, Created: time.Now().Add(-age),
		}))(t)
		return string(b)
	}
	for name, lock := range map[string]string{
		"one that may go on":    held("release", r.Subject(), time.Minute),
		"that of another state": held("release", "another", time.Hour),
		"that of a run":         held("apply", r.Subject(), time.Hour),
	} {
		if got := s.ask("LOCK", "", lock); got != http.StatusOK {
			t.Fatal(name, got)
		}
		if _, ok := errors.AsType[*statebackend.LockedError](s.Release(t.Context(), r)); !ok {
			t.Errorf("released under %s", name)
		}
		if got := s.ask("UNLOCK", "", lock); got != http.StatusOK {
			t.Fatal(name, got)
		}
	}
	for _, operation := range []string{"owner", "release"} {
		s := newSite(t)
		r := s.run("1")
		s.prepare(r)
		s.apply(1, "")
		if got := s.ask("LOCK", "", held(operation, r.Subject(), 10*time.Minute)); got != http.StatusOK {
			t.Fatal(got)
		}
		if err := s.Release(t.Context(), r); err != nil {
			t.Error(err)
		}
		if held, err := s.store("prod.acme").Held(t.Context(), "vpcs.prod"); held != nil || err != nil {
			t.Errorf("after %s it is locked: %+v, %v", operation, held, err)
		}
	}
}

// TestOwnerCutOff kills an operator while it makes an object the owner of its state, before and
// after it writes the record: its successor continues, but respects the locks of other holders.
func TestOwnerCutOff(t *testing.T) {
	for _, c := range []struct {
		operation, of string // of the lock; of "": of the run
		age           time.Duration
		written, ends bool
	}{
		{operation: "owner", ends: true},
		{operation: "owner", written: true, ends: true},
		{operation: "owner", age: time.Hour, written: true, ends: true},
		{operation: "release", age: time.Hour, ends: true},
		{operation: "release", age: time.Minute},
		{operation: "owner", of: "another", age: time.Hour},
		{operation: "apply", age: time.Hour},
	} {
		s := newSite(t)
		r := s.run("1")
		store := s.store("prod.acme")
		must.Get(store.Lock(t.Context(), r.Workspace, statebackend.LockInfo{
			Operation: c.operation, Who: s.issuer.Name(), Info: "state of " + cmp.Or(c.of, r.Subject()), Created: time.Now().Add(-c.age),
		}))(t)
		if c.written {
			must.Get(store.Workspaces().Change(t.Context(), r.Workspace, func(w *statebackend.Record) error {
				w.Owner = r.Subject()
				return nil
			}))(t)
		}
		_, err := s.Prepare(t.Context(), r)
		held, heldErr := store.Held(t.Context(), r.Workspace)
		if _, locked := errors.AsType[*statebackend.LockedError](err); locked == c.ends || c.ends && err != nil || c.ends != (held == nil) || heldErr != nil {
			t.Errorf("%+v: %v; it is held by %+v, %v", c, err, held, heldErr)
		}
	}
}

// TestStateOfPeople checks that a state that another user wrote is not taken over.
func TestStateOfPeople(t *testing.T) {
	s := newSite(t)
	l := must.Get(s.store("prod.acme").Lock(t.Context(), "vpcs.prod", statebackend.LockInfo{Who: "alice"}))(t)
	must.Get(l.Put(t.Context(), []byte(state(1, resource))))(t)
	r := s.run("1")
	if _, ok := errors.AsType[*runaccess.StateExistsError](errOf(s.Prepare(t.Context(), r))); !ok {
		t.Error("a state of alice's is taken")
	}
	r.Adopt = true
	if _, ok := errors.AsType[*statebackend.LockedError](errOf(s.Prepare(t.Context(), r))); !ok {
		t.Error("adopted while alice has the lock")
	}
	must.Succeed(t, l.Unlock(t.Context()))
	s.prepare(r)
	must.Equal(t, "the adopted state", s.ask(http.MethodGet, "", ""), http.StatusOK)
}

// TestErrorsTellNoToken checks that errors quote the response of okara serve, or of a
// proxy, but contain no token. The 404 of a proxy does not say that there is no state.
func TestErrorsTellNoToken(t *testing.T) {
	s := newSite(t)
	for _, status := range []int{http.StatusBadGateway, http.StatusNotFound} {
		var sent string
		broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, sent, _ = r.BasicAuth()
			http.Error(w, "the gateway is tired", status)
		}))
		defer broken.Close()
		u, err := url.Parse(broken.URL)
		if err != nil {
			t.Fatal(err)
		}
		s.restart(func(o *runaccess.Options) { o.FrontEnd = u })
		_, err = s.Prepare(t.Context(), s.run("1"))
		if err == nil || !strings.Contains(err.Error(), "the gateway is tired") || sent == "" || strings.Contains(err.Error(), sent) {
			t.Errorf("%d: %v", status, err)
		}
	}
}
