// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// neverLeads lets time pass, and checks why a replica does not lead.
func neverLeads(t *testing.T, r *replica, why string) {
	t.Helper()
	for range 20 {
		time.Sleep(30 * time.Second)
		if s := r.Status(); s.Leading {
			t.Fatal("it leads")
		}
	}
	if err := r.Status().Refused; err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("it does not lead because of %v, want %q", err, why)
	}
	if _, err := r.Do(t.Context(), create("x")); !errors.Is(err, lifecycle.ErrNoLeader) {
		t.Errorf("a command: %v", err)
	}
}

func sealer(t *testing.T, key byte) statebackend.Sealer {
	t.Helper()
	return must.Get(envelope.New(envelope.Options{Keys: []string{"base64key://" + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{key}, 32))}}))(t)
}

// dateless is a registry that sends no Date.
type dateless struct{ ocitest.Direct }

func (d dateless) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.Direct.RoundTrip(r)
	if err == nil {
		resp.Header.Del("Date")
	}
	return resp, err
}

// No replica leads if a lock, or the document, would prove nothing.
//
// Shows: crash K15 | the ledger is lost or restored from a backup
// Shows: platform-attacks 2
func TestNobodyLeads(t *testing.T) {
	for _, tc := range []struct {
		name   string
		quirks ocitest.Quirks
		change func(*ledger.Options)
		why    string
	}{
		{"no safe lock", ocitest.Quirks{CachedList: true}, nil, "locking refused"},
		{"no keys", ocitest.Quirks{}, func(o *ledger.Options) { o.InClear = false }, "state keys"},
		{"entries", ocitest.Quirks{}, func(o *ledger.Options) {
			o.Entries = func(context.Context) (bool, error) { return true, nil }
		}, "instances existed before"},
		{"entries unknown", ocitest.Quirks{}, func(o *ledger.Options) {
			o.Entries = func(context.Context) (bool, error) { return false, errors.New("the queue is away") }
		}, "the queue is away"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := ocitest.Handler(t, tc.quirks)
			synctest.Test(t, func(t *testing.T) {
				r := startWith(t, "acme", ocitest.Direct{Handler: h}, ledger.Options{InClear: true}, tc.change)
				neverLeads(t, r, tc.why)
				r.end()
			})
		})
	}
	t.Run("no time", func(t *testing.T) {
		h := ocitest.Handler(t, ocitest.Quirks{})
		synctest.Test(t, func(t *testing.T) {
			r := start(t, dateless{ocitest.Direct{Handler: h}}, ledger.Options{})
			neverLeads(t, r, "have no Date header")
			r.end()
		})
	})
	t.Run("other keys", func(t *testing.T) {
		h := ocitest.Handler(t, ocitest.Quirks{})
		synctest.Test(t, func(t *testing.T) {
			a := start(t, ocitest.Direct{Handler: h}, ledger.Options{Sealer: sealer(t, 1)})
			leads(t, a)
			mustDo(t, a, "one", 201)
			a.end()
			b := start(t, ocitest.Direct{Handler: h}, ledger.Options{Sealer: sealer(t, 2)})
			neverLeads(t, b, "")
			b.end()
			b = start(t, ocitest.Direct{Handler: h}, ledger.Options{Sealer: sealer(t, 1)})
			leads(t, b)
			mustHave(t, b, "one")
			b.end()
		})
	})
}

// A replica that remembers a newer ledger, in memory or in its folder, does not lead one
// that was emptied, set back or swapped, until an admin accepts it.
//
// Shows: crash K15
// Shows: platform-attacks 2 | a ledger that is emptied, set back, swapped, sealed with other keys,
// or has a false hint
func TestLedgerSetBack(t *testing.T) {
	for _, how := range []string{"emptied", "set back", "swapped"} {
		t.Run(how, func(t *testing.T) {
			h, other := ocitest.Handler(t, ocitest.Quirks{}), ocitest.Handler(t, ocitest.Quirks{})
			folder := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				now := http.Handler(nil)
				moving := handlerFunc(func(w http.ResponseWriter, r *http.Request) { now.ServeHTTP(w, r) })
				now = h
				a := start(t, ocitest.Direct{Handler: moving}, ledger.Options{Folder: folder})
				leads(t, a)
				b := start(t, ocitest.Direct{Handler: moving}, ledger.Options{})
				mustDo(t, a, "one", 201)
				mustDo(t, a, "two", 201)
				mustDo(t, a, "three", 201)
				time.Sleep(5 * time.Second)
				mustHave(t, b, "one", "two", "three")
				b.gate.closed.Store(true)
				a.end()
				want := []string{"one"}
				why := ""
				switch how {
				case "emptied":
					now, want, why = other, nil, "empty"
				case "set back":
					setBack(t, h)
					why = "at serial 1, but was at 3"
				case "swapped":
					now = other
					c := start(t, ocitest.Direct{Handler: moving}, ledger.Options{})
					leads(t, c)
					mustDo(t, c, "one", 201)
					for _, n := range []string{"a", "b", "c", "d"} {
						mustDo(t, c, n, 201)
						want = append(want, n)
					}
					c.end()
					why = "the ledger was replaced"
				}
				b.gate.closed.Store(false)
				neverLeads(t, b, why)
				mustHave(t, b, "one", "two", "three") // unchanged
				a = start(t, ocitest.Direct{Handler: moving}, ledger.Options{Folder: folder})
				neverLeads(t, a, why)

				if got, err := b.Accept(t.Context(), "an admin"); err != nil || got.Instances != len(want) {
					t.Fatalf("accepted %+v, %v", got, err)
				}
				first := leader(t, a, b)
				mustHave(t, first, want...)
				mustDo(t, first, "more", 201)
				first.end()
				for _, second := range []*replica{a, b} {
					if second != first {
						leads(t, second)
						mustHave(t, second, append(want, "more")...)
						second.end()
					}
				}
			})
		})
	}
}

// A follower remembers in its folder, and refuses a ledger set back.
func TestFollowerRemembers(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := start(t, ocitest.Direct{Handler: h}, ledger.Options{})
		leads(t, a)
		b := start(t, ocitest.Direct{Handler: h}, ledger.Options{Folder: folder})
		for _, name := range []string{"one", "two", "three"} {
			mustDo(t, a, name, 201)
		}
		time.Sleep(5 * time.Second)
		mustHave(t, b, "one", "two", "three")
		b.gate.closed.Store(true) // so that it never leads
		b.end()
		a.end()
		setBack(t, h)
		b = start(t, ocitest.Direct{Handler: h}, ledger.Options{Folder: folder})
		neverLeads(t, b, "at serial 1, but was at 3")
		b.end()
		c := start(t, ocitest.Direct{Handler: h}, ledger.Options{Folder: t.TempDir()}) // a replica that has seen nothing
		leads(t, c)
		c.end()
	})
}

type handlerFunc = http.HandlerFunc

// setBack sets the ledger back to its first version.
func setBack(t *testing.T, h http.Handler) {
	t.Helper()
	repo := repoBehind(t, "acme", ocitest.Direct{Handler: h})
	var versions []statebackend.Version
	for v, err := range statebackend.New(repo, statebackend.Options{}).History(t.Context(), "ledger") {
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v)
	}
	first := versions[len(versions)-1]
	m, err := repo.Fetch(t.Context(), first.Digest)
	if err == nil {
		err = repo.PutTag(t.Context(), "state-ledger", m)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions[:len(versions)-1] {
		m, err := repo.Resolve(t.Context(), v.Digest)
		if err == nil {
			err = repo.Delete(t.Context(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Nothing can be accepted while there is a leader.
func TestAcceptWhileLed(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		a := start(t, ocitest.Direct{Handler: h}, ledger.Options{})
		leads(t, a)
		b := start(t, ocitest.Direct{Handler: h}, ledger.Options{})
		if _, err := b.Accept(t.Context(), "an admin"); !isLocked(err) {
			t.Errorf("accepted beside a leader: %v", err)
		}
		a.end()
		b.end()
	})
}

func isLocked(err error) bool {
	_, ok := errors.AsType[*statebackend.LockedError](err)
	return ok
}

// An address in a claim is ignored if no replica signed it for this claim: an unsigned
// one, one with another key, and one copied from another claim.
//
// Shows: platform-attacks 1 | a claim of the ledger that names a foreign address
func TestForeignAddress(t *testing.T) {
	keys := [][]byte{[]byte("a key of the replicas")}
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		real := ""
		a := start(t, ocitest.Direct{Handler: h}, ledger.Options{Address: "https://a.example.com", AddressKeys: keys})
		leads(t, a)
		s := statebackend.New(repoBehind(t, "acme", ocitest.Direct{Handler: h}), statebackend.Options{LockTTL: time.Minute})
		if held, err := s.Held(t.Context(), "ledger"); err != nil {
			t.Fatal(err)
		} else {
			real = held.Info.Path
		}
		portal := start(t, ocitest.Direct{Handler: h}, ledger.Options{Portal: true, AddressKeys: [][]byte{[]byte("its own"), keys[0]}})
		if address, _ := portal.Leader(t.Context()); address != "https://a.example.com" {
			t.Errorf("the portal knows %q", address)
		}
		a.end()
		for _, path := range []string{"https://evil.example.com", "https://evil.example.com " + strings.Fields(real)[1], real, "https://evil.example.com x", ""} {
			l := must.Get(s.Lock(t.Context(), "ledger", statebackend.LockInfo{ID: "evil", Path: path}))(t)
			b := start(t, ocitest.Direct{Handler: h}, ledger.Options{Address: "https://b.example.com", AddressKeys: keys})
			time.Sleep(20 * time.Second)
			if address, _ := b.Leader(t.Context()); address != "" {
				t.Errorf("a follower believes %q", address)
			}
			if address, _ := portal.Leader(t.Context()); address != "" {
				t.Errorf("a portal believes %q", address)
			}
			b.end()
			if err := l.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
		portal.end()
	})
}

// A portal has its own key, which servers do not trust, nor other portals.
func TestAddressOfPortal(t *testing.T) {
	own, first, second := []byte("a key of the servers"), []byte("a key of one portal"), []byte("a key of another")
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		server := ledger.Options{Address: "https://a.example.com", AddressKeys: [][]byte{own}, PortalKeys: [][]byte{first, second}}
		readers := []*replica{
			start(t, ocitest.Direct{Handler: h}, ledger.Options{Portal: true, AddressKeys: [][]byte{first}}),
			start(t, ocitest.Direct{Handler: h}, ledger.Options{Portal: true, AddressKeys: [][]byte{second}}),
			start(t, ocitest.Direct{Handler: h}, ledger.Options{Portal: true, AddressKeys: [][]byte{own}}),
		}
		believe := func(want ...string) {
			t.Helper()
			for i, r := range readers {
				if address, _ := r.Leader(t.Context()); address != want[i] {
					t.Errorf("reader %d believes %q, want %q", i, address, want[i])
				}
			}
		}
		a := start(t, ocitest.Direct{Handler: h}, server)
		leads(t, a)
		time.Sleep(10 * time.Second)
		believe("https://a.example.com", "https://a.example.com", "https://a.example.com")
		a.end()

		// An attacker in the first portal has its key, and may lead.
		server.Address, server.AddressKeys, server.PortalKeys = "https://evil.example.com", [][]byte{first}, nil
		evil := start(t, ocitest.Direct{Handler: h}, server)
		leads(t, evil)
		server.Address, server.AddressKeys, server.PortalKeys = "https://b.example.com", [][]byte{own}, [][]byte{first, second}
		b := start(t, ocitest.Direct{Handler: h}, server)
		time.Sleep(10 * time.Second)
		believe("https://evil.example.com", "", "")
		if address, here := b.Leader(t.Context()); address != "" || here {
			t.Errorf("a server believes %q, %t", address, here)
		}
		evil.end()
		b.end()
		for _, r := range readers {
			r.end()
		}
	})
}
