// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"net/http"
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

// collected is a registry of distribution that collects garbage.
type collected struct {
	t       *testing.T
	program string
	config  string
	o       oci.Options
	key     *signing.Key
}

func (c *collected) open(transport http.RoundTripper) (d *depot.Depot, stop func()) {
	host, stop := serveDistribution(c.t, c.program, c.config)
	return c.depot(host, transport), stop
}

func (c *collected) depot(host string, transport http.RoundTripper) *depot.Depot {
	o := c.o
	o.Transport = transport
	return depot.New(depot.Options{Client: newClient(c.t, host, o), Layout: addr.Layout{Prefix: "kept"}})
}

func (c *collected) collect(args ...string) {
	args = append(append([]string{"garbage-collect"}, args...), c.config)
	if out, err := exec.CommandContext(c.t.Context(), c.program, args...).CombinedOutput(); err != nil {
		c.t.Errorf("%v\n%s", err, out)
	}
}

// damaged returns which of the versions are not whole.
func (c *collected) damaged(d *depot.Depot, names ...string) (items []string) {
	for _, name := range names {
		s := must.Get(addr.ParseSelection(name))(c.t)
		_, version, _ := strings.Cut(name, "@")
		if _, err := d.Verify(c.t.Context(), s.Item, mustVersion(c.t, version), trust.Policy{Deep: true}); err != nil {
			items = append(items, name)
		}
	}
	return items
}

// TestGarbageCollect runs the garbage collection of distribution after modules and a provider
// were published: each version stays whole, or publishing it again restores it.
func TestGarbageCollect(t *testing.T) {
	key := must.Get(signing.NewKey(signing.KeyOptions{Name: "conformance", ECC: true}))(t)
	for _, tt := range []struct {
		version string
		args    []string
		tags    bool // of the parts
		loses   bool // the manifests that only an index names, and their zips
	}{
		{"3.1.2", nil, false, false},
		{"3.1.2", []string{"--delete-untagged"}, false, false},
		{"2.8.3", nil, false, false},
		{"2.8.3", []string{"--delete-untagged"}, false, true},
		{"2.8.3", []string{"--delete-untagged"}, true, false},
	} {
		t.Run(fmt.Sprintf("%s %v %t", tt.version, tt.args, tt.tags), func(t *testing.T) {
			c := &collected{t, pinned(t, tt.version), configure(t, true), oci.Options{TagParts: tt.tags}, key}
			publish := func(d *depot.Depot) {
				publishModule(t, d)
				publishProvider(t, d, key)
			}
			all := []string{"net/vpc/aws@1.0.0", "net/vpc/aws@1.2.0", "net/vpc/aws@1.10.0", "acme/dns@1.2.3"}
			d, stop := c.open(nil)
			publish(d)
			stop()
			c.collect(tt.args...)
			d, _ = c.open(nil)
			var want []string
			if tt.loses {
				want = []string{"acme/dns@1.2.3"}
			}
			if got := c.damaged(d, all...); !slices.Equal(got, want) {
				t.Errorf("damaged are %v, want %v", got, want)
			}
			publish(d)
			if got := c.damaged(d, all...); len(got) > 0 {
				t.Errorf("published again: damaged are %v", got)
			}
		})
	}
}

// before runs do before the request with the number n.
type before struct {
	n  int
	do func()
}

func (b *before) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.n--; b.n == -1 {
		b.do()
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestGarbageCollectBeside collects before every second request of a publication, by 2.8: old
// versions stay whole, the new one is after another publication.
func TestGarbageCollectBeside(t *testing.T) {
	key := must.Get(signing.NewKey(signing.KeyOptions{Name: "conformance", ECC: true}))(t)
	c := &collected{t, pinned(t, "2.8.3"), configure(t, true), oci.Options{TagParts: true}, key}
	host, _ := serveDistribution(t, c.program, c.config)
	publishProvider(t, c.depot(host, nil), key)
	ran := true
	for n := 0; ran && !t.Failed(); n += 2 {
		version := fmt.Sprintf("1.3.%d", n)
		b := &before{n: n, do: func() { c.collect("--delete-untagged") }}
		_, err := publishProviderAs(t, c.depot(host, b), key, version)
		ran = b.n < 0
		if got := c.damaged(c.depot(host, nil), "acme/dns@1.2.3"); len(got) > 0 {
			t.Errorf("before request %d: %v was whole", n, got)
		}
		if _, again := publishProviderAs(t, c.depot(host, nil), key, version); again != nil {
			t.Errorf("before request %d: %v, then %v", n, err, again)
		}
		if got := c.damaged(c.depot(host, nil), "acme/dns@"+version); len(got) > 0 {
			t.Errorf("before request %d: %v, and published again it is damaged", n, err)
		}
	}
}
