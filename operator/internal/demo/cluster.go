// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/chart"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// cluster starts the control plane and installs the chart. Without nodes its two programs run as
// processes, the operator with the chart's rights.
func (w *world) cluster(ctx context.Context) error {
	admin, err := w.kube.Start()
	if err != nil {
		return err
	}
	w.admin = admin
	set, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := set.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := w.installChart(ctx, admin); err != nil {
		return err
	}
	operator, err := accountConfig(ctx, set, admin, system, "okara-operator")
	if err != nil {
		return err
	}
	w.kubeconfig = w.joinPath("kubeconfig")
	return rig.WriteConfig(w.kubeconfig, operator)
}

// installChart creates the CRDs and then every other object that helm would create.
func (w *world) installChart(ctx context.Context, admin *rest.Config) error {
	dir := filepath.Join(w.root, "charts", "okara")
	text, err := os.ReadFile(filepath.Join(dir, "crds.yaml"))
	if err != nil {
		return err
	}
	crds, err := chart.Parse(string(text))
	if err != nil {
		return err
	}
	objects, err := chart.Objects(chart.Options{Dir: dir, Namespace: system, Values: map[string]any{
		"registry": "registry.okara.test", "frontEnd": map[string]any{"hostname": "okara.test"}, "runs": map[string]any{"enabled": true, "cluster": clusterName},
	}})
	if err != nil {
		return err
	}
	if err := chart.Create(ctx, admin, append(crds, objects...)); err != nil {
		return err
	}
	c, err := newClient(admin)
	if err != nil {
		return err
	}
	if err := pollUntil(ctx, time.Minute, func() (bool, error) {
		err := c.List(ctx, &v1alpha1.DepotList{})
		return err == nil, ignoreMissing(err)
	}); err != nil {
		return err
	}
	fmt.Printf("%d kinds and %d objects of the chart are there\n", len(crds), len(objects))
	return nil
}

// ignoreMissing returns nil for an error that says a kind is not served yet.
func ignoreMissing(err error) error {
	if meta.IsNoMatchError(err) || client.IgnoreNotFound(err) == nil {
		return nil
	}
	return err
}

func accountConfig(ctx context.Context, set *kubernetes.Clientset, admin *rest.Config, namespace, account string) (*rest.Config, error) {
	r, err := set.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	c := rest.CopyConfig(admin)
	c.BearerToken = r.Status.Token
	return c, nil
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

func (w *world) startOperator() (err error) {
	args := []string{
		"run", "--kubeconfig", w.kubeconfig, "--namespace", system, "--registry", w.front, "--front-end", "okara.test",
		"--allow-origin", w.origin, "--lease", w.lease, "--metrics-address", w.metrics, "--health-address", "0",
	}
	w.operator, err = w.startProgram("okara-operator", append(args, w.runs...)...)
	return err
}
