// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// guarded makes the registry require a password for reading charts.
func (p *platform) guarded() {
	host, rest, _ := strings.Cut(p.repository, "/")
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: host})
		r.Out.Header.Del("Authorization")
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if read := r.Method == http.MethodGet || r.Method == http.MethodHead; read && strings.HasPrefix(r.URL.Path, "/v2/charts/") && user+":"+password != "reader:secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	p.t.Cleanup(server.Close)
	p.repository = strings.TrimPrefix(server.URL, "http://") + "/" + rest
}

// launchChart creates a Template of a chart, which names a range and a credential that
// stays in the Template's namespace, and an instance, and waits until it is ready.
func (p *platform) launchChart() *v1alpha1.Instance {
	p.t.Helper()
	host, _, _ := strings.Cut(p.repository, "/")
	c := must.Get(oci.New(host, oci.Options{PlainHTTP: true, Credential: func(context.Context, string, string) (oci.Credential, error) {
		return oci.Credential{Username: "reader", Password: "secret"}, nil
	}}))(p.t)
	repo, packed := depottest.MustRepo(p.t, c, "charts/hello"), chart(p.t)
	must.Get(repo.Push(p.t.Context(), packed))(p.t)
	must.Succeed(p.t, repo.PutTag(p.t.Context(), "1.0.0", packed.Root))
	pull := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"username":"reader","password":"secret"}}}`, host),
	}}
	must.Succeed(p.t, p.Create(p.t.Context(), pull))
	template := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "lab.hello"}, Spec: v1alpha1.TemplateSpec{
		Executor: v1alpha1.ExecutorHelm, Chart: &v1alpha1.Chart{OCI: &v1alpha1.ChartOCI{URL: "oci://" + repo.String(), Version: "1.x"}, SecretRef: &v1alpha1.SecretRef{Name: pull.Name}}, Timeout: "10m",
		TTL: &v1alpha1.TemplateTTL{Default: "8h", Extend: "2h"}, Drift: &v1alpha1.TemplateDrift{Every: "1h", Remediate: true},
		Parameters: []v1alpha1.TemplateParameter{{Name: "motto"}}, Inputs: map[string]apiextensions.JSON{"text": {Raw: []byte(`"${parameters.motto}, ${id}"`)}},
		Connection: &v1alpha1.TemplateConnection{URL: "https://${id}.example.com/"},
	}}
	must.Succeed(p.t, p.Create(p.t.Context(), template))
	o := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "bcdefghjkm"}, Spec: v1alpha1.InstanceSpec{
		Template: "lab/hello", Owner: &v1alpha1.Owner{Kind: "User", ID: "anna"}, CreatedBy: "anna",
		Parameters: map[string]apiextensions.JSON{"motto": {Raw: []byte(`"hello"`)}},
	}}
	until(p.t, "the chart is found", func() (bool, any) {
		err := p.Client.Get(p.t.Context(), client.ObjectKeyFromObject(template), template)
		return err == nil && template.Status.Digest == packed.Root.Descriptor.Digest.String() && template.Status.Version == "1.0.0", []any{err, template.Status}
	})
	must.Succeed(p.t, p.Create(p.t.Context(), o))
	p.phase(o, "Ready")
	return o
}

// TestInstanceOfChart checks a Template of a chart and an instance that helm-controller
// installed, with a URL, its repair and extension, its end, and that nothing is left.
//
// Shows: rig 7 | a Template of a chart becomes an instance with a URL, is repaired and extended; at
// its end nothing is left
func TestInstanceOfChart(t *testing.T) {
	p := newPlatform(t, Helm)
	p.guarded()
	t.Cleanup(p.operate(p.Client))
	o := p.launchChart()
	if o.Status.URL != "https://bcdefghjkm.example.com/" || o.Status.Module.Version != "1.0.0" {
		t.Errorf("%+v", o.Status)
	}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: o.Status.Namespace, Name: o.Name}}
	has := func(want string) func() (bool, any) {
		return func() (bool, any) {
			err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made)
			return err == nil && made.Data["text"] == want, []any{err, made.Data}
		}
	}
	until(t, "the chart has its values", has("hello, bcdefghjkm"))
	var secrets corev1.SecretList
	must.Succeed(t, p.Client.List(t.Context(), &secrets, client.InNamespace(o.Status.Namespace)))
	for _, s := range secrets.Items {
		if s.Type == corev1.SecretTypeDockerConfigJson {
			t.Errorf("the credential is in the namespace of the instance: %s", s.Name)
		}
	}
	made.Data["text"] = "somebody's"
	must.Succeed(t, p.Client.Update(t.Context(), made))
	p.later(61 * time.Minute)
	until(t, "it is repaired", has("hello, bcdefghjkm"))
	p.phase(o, "Ready")

	longer := metav1.NewTime(o.Status.ExpiresAt.Add(2 * time.Hour))
	o.Spec.ExpiresAt = &longer
	must.Succeed(t, p.Client.Update(t.Context(), o))
	until(t, "it is extended", func() (bool, any) {
		err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return err == nil && o.Status.ExpiresAt.Equal(&longer), []any{err, o.Status.ExpiresAt, o.Status.Handled}
	})
	template := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "lab.hello"}}
	must.Succeed(t, p.Client.Delete(t.Context(), template))
	p.later(10 * time.Hour)
	source := object(t, "{apiVersion: source.toolkit.fluxcd.io/v1, kind: OCIRepository, metadata: {name: bcdefghjkm, namespace: "+p.ns+"}}")
	lookup := object(t, "{apiVersion: source.toolkit.fluxcd.io/v1, kind: OCIRepository, metadata: {name: lab.hello, namespace: "+p.ns+"}}")
	for _, gone := range []client.Object{o, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Status.Namespace}}, made, lookup, source} {
		until(t, "nothing is left", func() (bool, any) {
			err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(gone), gone)
			return apierrors.IsNotFound(err), gone
		})
	}
}
