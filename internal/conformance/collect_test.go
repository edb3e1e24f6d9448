// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

// TestGarbageCollect runs the garbage collection of distribution after modules and a provider
// were published: each version stays whole, or publishing it again restores it.
func TestGarbageCollect(t *testing.T) {
	older := os.Getenv("OKARA_TEST_DISTRIBUTION_2")
	if name, err := exec.LookPath("docker-registry"); older == "" && err == nil {
		older = name
	}
	key := must.Get(signing.NewKey(signing.KeyOptions{Name: "conformance", ECC: true}))(t)
	for _, tt := range []struct {
		program string
		args    []string
		loses   bool // the manifests that only an index names, and their zips
	}{
		{pinned(t), nil, false},
		{pinned(t), []string{"--delete-untagged"}, false},
		{older, nil, false},
		{older, []string{"--delete-untagged"}, true},
	} {
		t.Run(fmt.Sprintf("%t %v", tt.program == older, tt.args), func(t *testing.T) {
			if tt.program == "" {
				t.Skip("no docker-registry 2.8 on PATH, and OKARA_TEST_DISTRIBUTION_2 names none")
			}
			config := configure(t, true)
			open := func() (d *depot.Depot, stop func()) {
				host, stop := serveDistribution(t, tt.program, config)
				return depot.New(depot.Options{Client: newClient(t, host, oci.Options{}), Layout: addr.Layout{Prefix: "kept"}}), stop
			}
			publish := func(d *depot.Depot) {
				publishModule(t, d)
				publishProvider(t, d, key)
			}
			damaged := func(d *depot.Depot) (items []string) {
				for _, name := range []string{"net/vpc/aws@1.0.0", "net/vpc/aws@1.2.0", "net/vpc/aws@1.10.0", "acme/dns@1.2.3"} {
					s := must.Get(addr.ParseSelection(name))(t)
					_, version, _ := strings.Cut(name, "@")
					if _, err := d.Verify(t.Context(), s.Item, mustVersion(t, version), trust.Policy{Deep: true}); err != nil {
						items = append(items, name)
					}
				}
				return items
			}
			d, stop := open()
			publish(d)
			stop()
			args := append(append([]string{"garbage-collect"}, tt.args...), config)
			if out, err := exec.Command(tt.program, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			d, _ = open()
			var want []string
			if tt.loses {
				want = []string{"acme/dns@1.2.3"}
			}
			if got := damaged(d); !slices.Equal(got, want) {
				t.Errorf("damaged are %v, want %v", got, want)
			}
			publish(d)
			if got := damaged(d); len(got) > 0 {
				t.Errorf("published again: damaged are %v", got)
			}
		})
	}
}
