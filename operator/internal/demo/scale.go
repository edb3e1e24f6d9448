// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// perNamespace is the number of Modules in a namespace.
const perNamespace = 100

// size is the number of objects of each kind in a cluster.
type size struct{ modules, instances, objects int }

// fleet is a cluster with many objects.
type fleet struct {
	*world
	size
	releases int // versions of each Module
	client   client.Client
	set      *kubernetes.Clientset
	cloud    *cloud
	pause    time.Duration // of the cloud
	user     string        // creates the Instances

	frontFlags []string // of okara serve
}

// sizeOf reads MODULES, MODULES,INSTANCES or MODULES,INSTANCES,OBJECTS.
func sizeOf(text string) (s size, err error) {
	numbers := strings.Split(text, ",")
	for i, into := range []*int{&s.modules, &s.instances, &s.objects} {
		if i < len(numbers) && err == nil {
			*into, err = strconv.Atoi(numbers[i])
		}
	}
	if err != nil || len(numbers) > 3 || min(s.modules, s.instances, s.objects) < 0 || s.modules+s.instances+s.objects == 0 {
		return s, fmt.Errorf("%q is not MODULES,INSTANCES,OBJECTS, 5000,1000,1000 say", text)
	}
	return s, nil
}

// runScale has one operator manage many objects, and prints the cost beside the target. An idle
// hour is one reconcile a Module; a namespace's annotation reconciles all its Modules at once.
func runScale(ctx context.Context, s size, releases int) (err error) {
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
	w.lease = "1m" // the default
	f := &fleet{world: w, size: s, releases: releases, pause: 2 * time.Second}
	parts := []part{{"A control plane, a registry, and another one with a module", f.prepare}}
	if f.instances+f.objects > 0 {
		parts = append(parts, part{"Flux's kinds, and who says that what they ask for is done", f.prepareRuns})
	}
	parts = append(parts, part{"One operator", func(context.Context) error { return f.startOperator() }})
	if f.modules > 0 {
		parts = append(parts, part{fmt.Sprintf("%d Modules of %d versions each", f.modules, releases), f.fill},
			part{"An idle hour: each Module runs once, and nothing has changed", f.simulateHour})
	}
	if f.instances > 0 {
		parts = append(parts, part{fmt.Sprintf("%d Instances", f.instances), f.launch},
			part{"An idle hour of them: nothing is due", f.hourOfInstances})
	}
	if f.objects > 0 {
		parts = append(parts, part{fmt.Sprintf("%d objects of a kind", f.objects), f.createKind},
			part{"An idle hour of them: each runs once, and nothing has changed", f.hourOfObjects})
	}
	return runParts(ctx, parts)
}

func (f *fleet) prepare(ctx context.Context) (err error) {
	if err := f.cluster(ctx); err != nil {
		return err
	}
	if f.set, err = kubernetes.NewForConfig(f.admin); err != nil {
		return err
	}
	if f.client, err = newClient(f.admin); err != nil {
		return err
	}
	if _, err = f.serveRegistry(f.origin, "origin", "--no-ui"); err != nil {
		return err
	}
	config, err := f.frontConfig(ctx)
	if err != nil {
		return err
	}
	f.frontFlags = []string{"--no-ui", "--anonymous-write", "--config", config}
	if f.registry, err = f.serveRegistry(f.front, "registry", f.frontFlags...); err != nil {
		return err
	}
	for n := range f.releases {
		text := fmt.Sprintf("variable \"cidr\" {\n  default = \"10.%d.0.0/16\"\n}\n", n)
		if err := os.WriteFile(f.joinPath("app", "main.tf"), []byte(text), 0o600); err != nil {
			return err
		}
		if err := f.runProgram(ctx, "okara", "publish", "module", f.joinPath("app"), "net/vpc/aws", fmt.Sprintf("1.%d.0", n), "--registry", f.origin, "--quiet"); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) namespace(n int) string { return fmt.Sprintf("fleet-%d", n/perNamespace) }

// fill creates the Modules and waits until all of them are Ready.
func (f *fleet) fill(ctx context.Context) error {
	for n := 0; n < f.modules; n += perNamespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace(n)}}
		if _, err := f.set.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := callEach(ctx, f.modules, func(ctx context.Context, n int) error {
		ns := f.namespace(n)
		m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", n), Namespace: ns}}
		m.Spec.Address = fmt.Sprintf("%s/m%d/aws", ns, n)
		m.Spec.Source = "oci://" + f.origin + "/modules/net/vpc/aws"
		return f.client.Create(ctx, m)
	}); err != nil {
		return err
	}
	return f.awaitReady(ctx, f.modules, v1alpha1.GroupVersion().WithKind("Module"))
}

// simulateHour has each Module reconcile once more, and compares the counts.
func (f *fleet) simulateHour(ctx context.Context) error {
	time.Sleep(5 * time.Second) // the reconciles that events triggered are done
	before, err := f.readCounts(ctx)
	if err != nil {
		return err
	}
	leases, stop := f.leaseWrites(ctx)
	defer stop()
	began := time.Now()
	for n := 0; n < f.modules; n += perNamespace {
		text := fmt.Sprintf(`{"metadata":{"annotations":{%q:"module:%s/**"}}}`, v1alpha1.AnnotationAddresses, f.namespace(n))
		if _, err := f.set.CoreV1().Namespaces().Patch(ctx, f.namespace(n), types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	var after counts
	if err := pollUntil(ctx, 20*time.Minute, func() (bool, error) {
		time.Sleep(2 * time.Second)
		last := after.origin // a reconcile asks the origin once; checking a queued entry does not ask it
		after, err = f.readCounts(ctx)
		return after.origin-before.origin >= float64(f.modules) && after.origin == last, err
	}); err != nil {
		return fmt.Errorf("the origin was asked %.0f times by %d Modules: %w", after.origin-before.origin, f.modules, err)
	}
	for time.Since(began) < 2*time.Minute { // long enough to count writes of the lease
		time.Sleep(time.Second)
	}
	window := time.Since(began)
	if after, err = f.readCounts(ctx); err != nil {
		return err
	}
	each := float64(f.modules)
	return printTable([]figure{
		{"heap of the operator, MiB", after.heap, 256, 512},
		{"memory of the operator, MiB", after.resident, 256, 512},
		{"requests to the origin per Module", (after.origin - before.origin) / each, 1, 1},
		// Tags, record, newest version: nothing else shows a moved tag. Others once a day.
		{"requests to the registry per Module", (after.registry - before.registry) / each, 2, 3 + float64(f.releases-1)/2},
		{"writes of statuses", after.statusWrites - before.statusWrites, 0, 0},
		{"other writes of objects of okara.dev", after.ourWrites - before.ourWrites, 0, 0},
		{"lists of objects of okara.dev", after.lists - before.lists, 0, 0},
		{"writes of the lease, in an hour", float64(leases.Load()) * float64(time.Hour) / float64(window), 360, 400},
	})
}
