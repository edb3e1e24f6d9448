// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// perNamespace is how many Modules a namespace has.
const perNamespace = 100

// fleet is a cluster with many Modules.
type fleet struct {
	*world
	modules, releases int
	client            client.Client
	set               *kubernetes.Clientset
	origins           string // HOST:PORT of the registry that the Modules copy from
}

// scale has one operator work on many Modules, and prints what that costs beside what
// it should. An idle hour is one run of each Module: its interval is an hour, and a
// namespace whose annotation changes has all its Modules run at once, at whatever time.
func scale(ctx context.Context, modules, releases int) (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close(err != nil)) }()
	w.lease = "1m" // as by default
	if w.metrics, err = freeAddress(); err != nil {
		return err
	}
	f := &fleet{world: w, modules: modules, releases: releases}
	for _, part := range []struct {
		text string
		run  func(context.Context) error
	}{
		{"A control plane, a registry, and another one with a module", f.prepare},
		{fmt.Sprintf("%d Modules of %d versions each", modules, releases), f.fill},
		{"An idle hour: each Module runs once, and nothing has changed", f.hour},
	} {
		step(part.text)
		began := time.Now()
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.text, err)
		}
		fmt.Printf("(%s)\n", time.Since(began).Round(time.Second))
	}
	return nil
}

func (f *fleet) prepare(ctx context.Context) (err error) {
	if err := f.cluster(ctx); err != nil {
		return err
	}
	if f.set, err = kubernetes.NewForConfig(f.admin); err != nil {
		return err
	}
	if f.client, err = connect(f.admin); err != nil {
		return err
	}
	if f.origins, err = f.serve("origin", "--no-ui"); err != nil {
		return err
	}
	if f.front, err = f.serve("registry", "--no-ui"); err != nil {
		return err
	}
	f.origin = f.origins
	for n := range f.releases {
		text := fmt.Sprintf("variable \"cidr\" {\n  default = \"10.%d.0.0/16\"\n}\n", n)
		if err := os.WriteFile(f.path("app", "main.tf"), []byte(text), 0o600); err != nil {
			return err
		}
		if err := f.run(ctx, "okara", "publish", "module", f.path("app"), "net/vpc/aws", fmt.Sprintf("1.%d.0", n), "--registry", f.origins, "--quiet"); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) namespace(n int) string { return fmt.Sprintf("fleet-%d", n/perNamespace) }

// freeAddress is one that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// fill creates the Modules and waits until all are Ready.
func (f *fleet) fill(ctx context.Context) error {
	for n := 0; n < f.modules; n += perNamespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace(n)}}
		if _, err := f.set.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := f.startOperator(); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for n := range f.modules {
		g.Go(func() error {
			ns := f.namespace(n)
			m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", n), Namespace: ns}}
			m.Spec.Address, m.Spec.Source = fmt.Sprintf("%s/m%d/aws", ns, n), "oci://"+f.origins+"/modules/net/vpc/aws"
			return f.client.Create(gctx, m)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return until(ctx, time.Hour, func() (bool, error) {
		var list v1alpha1.ModuleList
		if err := f.client.List(ctx, &list); err != nil {
			return false, err
		}
		ready, why := 0, ""
		for _, m := range list.Items {
			if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionTrue {
				ready++
			} else if c != nil {
				why = c.Message
			}
		}
		if why != "" {
			fmt.Println("not ready:", why)
		}
		if ready < f.modules {
			fmt.Printf("%s %d are ready\n", time.Now().Format(time.TimeOnly), ready)
			time.Sleep(10 * time.Second)
		}
		return ready == f.modules, nil
	})
}

// counts is what was asked of whom, and what the operator keeps.
type counts struct {
	registry, origin        float64
	statusWrites, ourWrites float64
	lists                   float64
	heap, resident          float64
}

// hour has each Module run once more, and compares.
func (f *fleet) hour(ctx context.Context) error {
	time.Sleep(5 * time.Second) // what events wake is done with
	before, err := f.count(ctx)
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
	if err := until(ctx, 20*time.Minute, func() (bool, error) {
		time.Sleep(2 * time.Second)
		last := after.origin // which a run asks once, and a look at an entry that waits for its turn not at all
		after, err = f.count(ctx)
		return after.origin-before.origin >= float64(f.modules) && after.origin == last, err
	}); err != nil {
		return fmt.Errorf("the origin was asked %.0f times by %d Modules: %w", after.origin-before.origin, f.modules, err)
	}
	for time.Since(began) < 30*time.Second { // of the lease
		time.Sleep(time.Second)
	}
	window := time.Since(began)
	if after, err = f.count(ctx); err != nil {
		return err
	}
	each := float64(f.modules)
	return table([]figure{
		{"heap of the operator, MiB", after.heap, 256, 512},
		{"memory of the operator, MiB", after.resident, 256, 512},
		{"requests to the origin per Module", (after.origin - before.origin) / each, 1, 1},
		// The tags, the record, and the newest version, since a tag that was moved shows
		// nowhere else; the others take turns, each once in a day.
		{"requests to the registry per Module", (after.registry - before.registry) / each, 2, 3 + float64(f.releases-1)/2},
		{"writes of statuses", after.statusWrites - before.statusWrites, 0, 0},
		{"other writes of objects of okara.dev", after.ourWrites - before.ourWrites, 0, 0},
		{"lists of objects of okara.dev", after.lists - before.lists, 0, 0},
		{"writes of the lease, in an hour", float64(leases.Load()) * float64(time.Hour) / float64(window), 360, 400},
	})
}

// figure is something measured, what it should be, and the most that it may be.
type figure struct {
	what                 string
	value, target, bound float64
}

func table(all []figure) error {
	bad := 0
	fmt.Printf("%-40s %10s %10s %10s\n", "", "measured", "target", "at most")
	for _, f := range all {
		fmt.Printf("%-40s %10.1f %10.0f %10.0f\n", f.what, f.value, f.target, f.bound)
		if f.value > f.bound {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d figures are beyond what they may be", bad)
	}
	return nil
}

// leaseWrites counts how often the lease of the operator is written.
func (f *fleet) leaseWrites(ctx context.Context) (n *atomic.Int64, stop func()) {
	n = new(atomic.Int64)
	w, err := f.set.CoordinationV1().Leases(system).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=okara-operator"})
	if err != nil {
		return n, func() {}
	}
	go func() {
		for e := range w.ResultChan() {
			if e.Type == "MODIFIED" {
				n.Add(1)
			}
		}
	}()
	return n, w.Stop
}

// count reads the metrics of all.
func (f *fleet) count(ctx context.Context) (counts, error) {
	own, err1 := scrape(ctx, http.DefaultClient, "http://"+f.metrics+"/metrics")
	registry, err2 := scrape(ctx, http.DefaultClient, "http://"+f.front+"/metrics")
	origin, err3 := scrape(ctx, http.DefaultClient, "http://"+f.origins+"/metrics")
	kube, err4 := rest.HTTPClientFor(f.admin)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return counts{}, err
	}
	server, err := scrape(ctx, kube, f.admin.Host+"/metrics")
	if err != nil {
		return counts{}, err
	}
	const mib = 1 << 20
	c := counts{
		heap:     own.sum("go_memstats_heap_alloc_bytes") / mib,
		resident: own.sum("process_resident_memory_bytes") / mib,
		registry: registry.sum("okara_http_requests_total", `route="/v2/`),
		origin:   origin.sum("okara_http_requests_total", `route="/v2/`),
	}
	for _, verb := range []string{"PUT", "PATCH", "POST", "DELETE", "APPLY"} {
		ours := []string{`group="okara.dev"`, `verb="` + verb + `"`}
		status := server.sum("apiserver_request_total", append(ours, `subresource="status"`)...)
		c.statusWrites += status
		c.ourWrites += server.sum("apiserver_request_total", ours...) - status
	}
	c.lists = server.sum("apiserver_request_total", `group="okara.dev"`, `verb="LIST"`)
	return c, nil
}

// page is the text of metrics.
type page []string

// sample splits a line of metrics into the name with its labels, and the value.
var sample = regexp.MustCompile(`^([a-z_]+)(\{.*\})? ([0-9.e+-]+)$`)

// sum adds up the samples of a metric that have all of the labels.
func (p page) sum(name string, labels ...string) (sum float64) {
	for _, line := range p {
		m := sample.FindStringSubmatch(line)
		if m == nil || m[1] != name {
			continue
		}
		has := true
		for _, l := range labels {
			has = has && strings.Contains(m[2], l)
		}
		if v, err := strconv.ParseFloat(m[3], 64); has && err == nil {
			sum += v
		}
	}
	return sum
}

func scrape(ctx context.Context, c *http.Client, url string) (page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	var all page
	s := bufio.NewScanner(resp.Body)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		all = append(all, s.Text())
	}
	return all, s.Err()
}
