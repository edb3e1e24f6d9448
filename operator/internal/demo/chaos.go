// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

const (
	// chaosEach is the number of Instances, and the number of objects of the kind.
	chaosEach = 50
	// chaosTenants own the objects; their namespaces are deleted now and then.
	chaosTenants = 10
	// settle is how long the cluster may take afterwards to reach the desired state.
	settle = 15 * time.Minute
)

// storm is a cluster whose components are killed at random.
type storm struct {
	*fleet
	manager func() error // kills kube-controller-manager and starts it again
	names   int
	did     map[string]int
}

// runChaos kills operator, controllers and registry at random, empties statuses, deletes namespaces
// and objects. In the end nothing runs without an object, all that is named runs, nothing is stuck
// without a reason.
func runChaos(ctx context.Context, length time.Duration) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() {
		stop()
		err = errors.Join(err, w.close(err != nil))
	}()
	s := &storm{fleet: &fleet{world: w, releases: 1, pause: 300 * time.Millisecond}, did: map[string]int{}}
	return runParts(ctx, []part{
		{"A control plane, a registry, and who stands for tofu-controller", s.beginStorm},
		{"One operator, and what it is to run", s.populate},
		{fmt.Sprintf("%s in which everything is killed", length), func(ctx context.Context) error { return s.causeHarm(ctx, length) }},
		{"Calm: everything is as it should be", s.waitUntilSettled},
	})
}

func (s *storm) beginStorm(ctx context.Context) (err error) {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if s.manager, err = s.kube.StartManager(); err != nil {
		return err
	}
	return s.prepareRuns(ctx)
}

func (s *storm) populate(ctx context.Context) error {
	for _, do := range []func(context.Context) error{func(context.Context) error { return s.startOperator() }, s.createTemplate, s.createKind, s.refill} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return pollUntil(ctx, settle, func() (bool, error) {
		time.Sleep(time.Second)
		wrong, err := s.findDeviations(ctx)
		return len(wrong) == 0, err
	})
}

func (s *storm) objectsOf(ctx context.Context) (all []*unstructured.Unstructured, err error) {
	for _, kind := range []schema.GroupVersionKind{v1alpha1.GroupVersion().WithKind("Instance"), vpcKind()} {
		if err := fluxobj.EachObject(ctx, s.client, kind, func(o *unstructured.Unstructured) error { all = append(all, o); return nil }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func tenantName(n int) string { return fmt.Sprintf("chaos-%d", n) }

// refill creates Instances and objects with new names until there are enough.
func (s *storm) refill(ctx context.Context) error {
	all, err := s.objectsOf(ctx)
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, o := range all {
		count[o.GetKind()]++
	}
	for range chaosEach - count["Instance"] {
		s.names++
		if err := s.createInstance(ctx, s.names); err != nil {
			return err
		}
	}
	for range chaosEach - count["VPC"] {
		s.names++
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantName(s.names % chaosTenants)}}
		if _, err := s.set.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		err := s.createObject(ctx, ns.Name, s.names)
		if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) { // the namespace is being deleted
			return err
		}
	}
	return nil
}

// causeHarm does one kind of harm every second.
func (s *storm) causeHarm(ctx context.Context, length time.Duration) error {
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Second) {
		what, do := s.pickHarm()
		if err := do(ctx); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		s.did[what]++
		if err := s.refill(ctx); err != nil {
			return err
		}
	}
	for what, n := range s.did {
		fmt.Printf("%4d times: %s\n", n, what)
	}
	return nil
}

// pickHarm picks the next kind of harm at random.
func (s *storm) pickHarm() (string, func(context.Context) error) {
	switch n := rand.IntN(100); {
	case n < 8:
		return "the operator is killed", s.killOperator
	case n < 12:
		return "the registry is killed", s.killRegistry
	case n < 16:
		return "tofu-controller is away", func(context.Context) error {
			s.cloud.away.Store(true)
			time.Sleep(time.Duration(rand.IntN(5000)) * time.Millisecond)
			s.cloud.away.Store(false)
			return nil
		}
	case n < 18:
		return "kube-controller-manager is killed", func(context.Context) error { return s.manager() }
	case n < 22:
		return "a namespace of a tenant is deleted", s.deleteTenant
	case n < 60:
		return "a status is emptied", s.emptyStatus
	}
	return "an object is deleted", s.deleteObject
}

func (s *storm) killOperator(context.Context) error {
	s.operator.Kill()
	time.Sleep(time.Duration(rand.IntN(2000)) * time.Millisecond)
	return s.startOperator()
}

func (s *storm) killRegistry(context.Context) (err error) {
	s.registry.Kill()
	time.Sleep(time.Duration(rand.IntN(4000)) * time.Millisecond)
	s.registry, err = s.serveRegistry(s.front, "registry", s.frontFlags...)
	return err
}

func (s *storm) deleteTenant(ctx context.Context) error {
	err := s.set.CoreV1().Namespaces().Delete(ctx, tenantName(rand.IntN(chaosTenants)), metav1.DeleteOptions{})
	if apierrors.IsConflict(err) { // it is already being deleted
		return nil
	}
	return client.IgnoreNotFound(err)
}

func (s *storm) randomObject(ctx context.Context) (*unstructured.Unstructured, error) {
	all, err := s.objectsOf(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[rand.IntN(len(all))], nil
}

func (s *storm) emptyStatus(ctx context.Context) error {
	o, err := s.randomObject(ctx)
	if err != nil || o == nil {
		return err
	}
	o.Object["status"] = map[string]any{}
	if err := s.client.Status().Update(ctx, o); !apierrors.IsConflict(err) {
		return client.IgnoreNotFound(err)
	}
	return nil // another writer changed it meanwhile
}

func (s *storm) deleteObject(ctx context.Context) error {
	o, err := s.randomObject(ctx)
	if err != nil || o == nil {
		return err
	}
	return client.IgnoreNotFound(s.client.Delete(ctx, o))
}

// waitUntilSettled waits until every object is in the desired state, and reports those that are not.
func (s *storm) waitUntilSettled(ctx context.Context) error {
	var wrong []string
	reported := time.Now()
	err := pollUntil(ctx, settle, func() (bool, error) {
		time.Sleep(2 * time.Second)
		now, err := s.findDeviations(ctx)
		if err != nil {
			return false, ctx.Err() // the API server is busy
		}
		if wrong = now; len(wrong) > 0 && time.Since(reported) > 20*time.Second {
			reported = time.Now()
			fmt.Printf("%s %d are not, such as: %s\n", reported.Format(time.TimeOnly), len(wrong), wrong[0])
		}
		return len(wrong) == 0, nil
	})
	if err != nil {
		return errors.Join(err, errors.New(strings.Join(wrong, "\n")))
	}
	fmt.Printf("%d things run, and as many are named\n", len(s.cloud.existingThings()))
	return nil
}

// requestAgain asks once a minute for another try to destroy, as an administrator does: the lock of a
// server that was killed in a write lasts longer than the tries of an object.
func requestAgain(ctx context.Context, c client.Client, o *unstructured.Unstructured) {
	before := o.DeepCopy()
	_ = unstructured.SetNestedField(o.Object, time.Now().Format("15:04"), "metadata", "annotations", v1alpha1.AnnotationRequest) // these are objects
	_ = c.Patch(ctx, o, client.MergeFrom(before))                                                                                // or a minute later
}

// findDeviations lists objects that are not Ready, resources without object, objects without
// resource, and run namespaces without object.
func (s *storm) findDeviations(ctx context.Context) (wrong []string, err error) {
	all, err := s.objectsOf(ctx)
	if err != nil {
		return nil, err
	}
	things := s.cloud.existingThings()
	named := map[string]bool{}
	runNamespaces := map[string]bool{}
	for _, o := range all {
		workspace := "okara-instances/instance." + o.GetName()
		if o.GetKind() != "Instance" {
			workspace = o.GetNamespace() + "/vpcs." + o.GetName()
		}
		at := fmt.Sprintf("http://%s/state/%s.%s", s.front, clusterName, workspace)
		named[at] = true
		runNamespaces[fluxobj.Text(o, "status", "namespace")] = true
		ready := fluxobj.Conditions(o)["Ready"]
		switch {
		case !ready.True():
			if ready.Reason == v1alpha1.ReasonDestroyFailed {
				requestAgain(ctx, s.client, o)
			}
			wrong = append(wrong, fmt.Sprintf("%s %s/%s is not Ready: %s: %s (deleted %t, phase %s)", o.GetKind(), o.GetNamespace(), o.GetName(), ready.Reason, ready.Message, o.GetDeletionTimestamp() != nil, fluxobj.Text(o, "status", "phase")))
		case things[at] == "":
			wrong = append(wrong, fmt.Sprintf("%s %s/%s is Ready, and nothing runs for it", o.GetKind(), o.GetNamespace(), o.GetName()))
		}
	}
	for at, by := range things {
		if !named[at] {
			wrong = append(wrong, fmt.Sprintf("%s, made by Terraform %s, is named by no object", at, by))
		}
	}
	spaces, err := s.set.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelManaged})
	if err != nil {
		return nil, err
	}
	for _, ns := range spaces.Items {
		if !runNamespaces[ns.Name] {
			wrong = append(wrong, "namespace "+ns.Name+" was made for an object that is gone")
		}
	}
	return wrong, nil
}
