// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/registry"
)

// TestSignedLater: a signature shows once the list has it, at no cost.
func TestSignedLater(t *testing.T) {
	var passed atomic.Int64
	start := time.Now()
	s := newSiteOf(t, nil, access.Policy{Anonymous: rights.AnonymousRead()}, func(o *registry.Options) {
		o.Now = func() time.Time { return start.Add(time.Duration(passed.Load())) }
	})
	s.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	s.provider(t, "1.2.3")
	m, v := depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depottest.MustVersion(t, "1.2.3")
	p := addr.Item{Kind: addr.KindProvider, Provider: depottest.DNS()}
	key, _ := depottest.NewCosignKey(t)
	other := depottest.NewKey(t, signing.KeyOptions{Name: "second", Email: "second@example.com", ECC: true})
	for _, c := range []struct {
		path string
		sign func() error
		mark string // occurs once more on the page
	}{
		{"modules/net/vpc/aws/1.0.0/security", func() error {
			_, err := trust.SignCosign(t.Context(), depottest.MustSubject(t, s.depot, m.Item(), m.Version), key)
			return err
		}, ">cosign"},
		{"providers/acme/dns/1.2.3/security", func() error {
			_, err := trust.SignCosign(t.Context(), depottest.MustSubject(t, s.depot, p, v), key)
			return err
		}, ">cosign"},
		{"providers/acme/dns/1.2.3/security", func() error {
			_, err := trust.SignProvider(t.Context(), depottest.MustSubject(t, s.depot, p, v), other, false)
			return err
		}, ">OpenPGP"},
	} {
		_, body := s.get(t, "/ui/"+c.path)
		before := strings.Count(body, c.mark)
		must.Succeed(t, c.sign())
		passed.Add(int64(6 * time.Minute)) // the list of versions is read again
		if _, body = s.get(t, "/ui/"+c.path); strings.Count(body, c.mark) != before+1 {
			t.Errorf("%s: signed, and %q is there %d times as before\n%s", c.path, c.mark, before, body)
		}
		s.count.Take()
		s.get(t, "/ui/"+c.path)
		if n := s.count.Take(); len(n) != 0 {
			t.Errorf("%s asks %v again", c.path, n)
		}
	}
}
