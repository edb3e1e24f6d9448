// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

func vpcKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: v1alpha1.KindsGroup, Version: v1alpha1.KindsVersion, Kind: "VPC"}
}

// createKind makes a kind of a module and objects of it, until all are Ready.
func (f *fleet) createKind(ctx context.Context) error {
	def := &v1alpha1.ModuleKind{ObjectMeta: metav1.ObjectMeta{Name: "vpcs"}}
	def.Spec.Names = v1alpha1.KindNames{Kind: "VPC", Plural: "vpcs", Singular: "vpc"}
	def.Spec.Module = v1alpha1.KindModule{Address: "sandbox/vpc/aws", Version: "1.0.0"}
	def.Spec.Run = v1alpha1.KindRun{Interval: new(v1alpha1.Duration("1h"))}
	if err := f.client.Create(ctx, def); err != nil {
		return err
	}
	if err := pollUntil(ctx, time.Minute, func() (bool, error) {
		err := f.client.Get(ctx, client.ObjectKeyFromObject(def), def)
		return meta.IsStatusConditionTrue(def.Status.Conditions, v1alpha1.ConditionReady), err
	}); err != nil {
		return fmt.Errorf("the kind is not there: %+v: %w", def.Status.Conditions, err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "objects"}}
	if _, err := f.set.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := callEach(ctx, f.objects, func(ctx context.Context, n int) error { return f.createObject(ctx, ns.Name, n) }); err != nil {
		return err
	}
	return f.awaitReady(ctx, f.objects, vpcKind())
}

func (f *fleet) createObject(ctx context.Context, namespace string, n int) error {
	name := fmt.Sprintf("o%d", n)
	return f.client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.okara.dev/v1alpha1", "kind": "VPC",
		"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": map[string]any{"name": name},
	}})
}

// hourOfObjects updates each Terraform's status as hourly runs do, without change.
func (f *fleet) hourOfObjects(ctx context.Context) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(terraformVersion)
	list.SetKind("TerraformList")
	if err := f.client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelKind: "VPC"}); err != nil {
		return err
	}
	if len(list.Items) != f.objects {
		return fmt.Errorf("%d objects have %d Terraforms", f.objects, len(list.Items))
	}
	return f.printIdle(ctx, f.objects, counts{fluxWrites: float64(f.objects)}, func() error {
		return f.awaitPasses(ctx, "kind-vpcs", f.objects, func() error {
			return callEach(ctx, f.objects, func(ctx context.Context, n int) error { return touchObject(ctx, f.client, &list.Items[n], n) })
		})
	})
}
