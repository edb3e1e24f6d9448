// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// figure is a measured value with its target and its upper bound.
type figure struct {
	what                 string
	value, target, bound float64
}

func printTable(all []figure) error {
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

// counts holds the numbers of requests and writes, and the memory of the operator.
type counts struct {
	registry, origin        float64
	statusWrites, ourWrites float64 // of objects of okara's kinds
	fluxWrites, runWrites   float64 // of objects of runs, without the writes of the test
	lists                   float64
	heap, resident          float64
}

// readCounts reads the metrics of the operator, the registry, the origin and the API server.
func (f *fleet) readCounts(ctx context.Context) (counts, error) {
	own, err1 := scrapePage(ctx, http.DefaultClient, "http://"+f.metrics+"/metrics")
	registry, err2 := scrapePage(ctx, http.DefaultClient, "http://"+f.front+"/metrics")
	origin, err3 := scrapePage(ctx, http.DefaultClient, "http://"+f.origin+"/metrics")
	kube, err4 := rest.HTTPClientFor(f.admin)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return counts{}, err
	}
	server, err := scrapePage(ctx, kube, f.admin.Host+"/metrics")
	if err != nil {
		return counts{}, err
	}
	const mib = 1 << 20
	c := counts{
		heap:     own.sumSamples("go_memstats_heap_alloc_bytes") / mib,
		resident: own.sumSamples("process_resident_memory_bytes") / mib,
		registry: registry.sumSamples("okara_http_requests_total", `route="/v2/`),
		origin:   origin.sumSamples("okara_http_requests_total", `route="/v2/`),
	}
	// Labels of the API groups of the operator's and Flux's objects.
	ours := []string{`group="okara.dev"`, `group="apps.okara.dev"`}
	flux := []string{`group="source.toolkit.fluxcd.io"`, `group="infra.contrib.fluxcd.io"`}
	for _, verb := range []string{"PUT", "PATCH", "POST", "DELETE", "APPLY"} {
		is := `verb="` + verb + `"`
		written := func(group string) (status, rest float64) {
			status = server.sumSamples("apiserver_request_total", is, group, `subresource="status"`)
			return status, server.sumSamples("apiserver_request_total", is, group) - status
		}
		for _, group := range ours {
			status, rest := written(group)
			c.statusWrites = c.statusWrites + status
			c.ourWrites = c.ourWrites + rest
		}
		for _, group := range flux {
			_, rest := written(group)
			c.fluxWrites += rest
		}
		for _, resource := range []string{"secrets", "serviceaccounts", "rolebindings", "networkpolicies"} {
			c.runWrites += server.sumSamples("apiserver_request_total", is, `resource="`+resource+`"`, `subresource=""`)
		}
	}
	for _, group := range ours {
		c.lists += server.sumSamples("apiserver_request_total", group, `verb="LIST"`)
	}
	return c, nil
}

// page is the text of a metrics endpoint, by line.
type page []string

// sample splits a line of metrics into the name with its labels, and the value.
var sample = regexp.MustCompile(`^([a-z_]+)(\{.*\})? ([0-9.e+-]+)$`)

// sumSamples adds up the samples of a metric that have all the given labels.
func (p page) sumSamples(name string, labels ...string) (sum float64) {
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

func scrapePage(ctx context.Context, c *http.Client, url string) (page, error) {
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
