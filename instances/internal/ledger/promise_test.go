// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// pooled returns a template with this many pool members, and no further instances.
func pooled(size int) *template.Template {
	t := plain()
	t.Pool = &template.PoolSize{Size: size, WhenEmpty: "refuse"}
	t.Max = size
	return t
}

// serve commits an event of the server, and returns the resulting document.
func serve(t testing.TB, r *replica, e lifecycle.Event) *lifecycle.Document {
	t.Helper()
	c := launch(plain(), "", "", fmt.Sprintf("%T %d", e, time.Now().UnixNano()))
	must.Get(r.Do(t.Context(), lifecycle.Command{Event: e, Seed: c.Seed}))(t)
	v := must.Get(r.View(t.Context()))(t)
	return v.Document
}

// fill makes the members of a pool available.
func fill(t testing.TB, r *replica, tpl *template.Template) {
	t.Helper()
	f := lifecycle.Fill{Name: tpl.Name, Template: tpl, Digest: "sha256:" + tpl.Name, Source: source}
	serve(t, r, f)
	d := serve(t, r, lifecycle.Schedule{Concurrency: 10_000})
	var p lifecycle.Reconcile
	for id, rec := range d.Records {
		p.Events = append(p.Events, lifecycle.Ended{
			Ref:    rec.Run.Ref(id),
			Result: lifecycle.Result{Outcome: lifecycle.Done, Resources: 1, State: true},
		})
	}
	d = serve(t, r, p)
	for id, rec := range d.Records {
		if rec.Phase != lifecycle.Available {
			t.Fatalf("%s is %s: %s", id, rec.Phase, rec.Reason)
		}
	}
}

// won sends a command to all replicas until one answers, and returns the claimed member.
func won(t *testing.T, c lifecycle.Command, replicas []*replica) (string, error) {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, r := range replicas {
			a, err := r.Do(t.Context(), c)
			if err == nil {
				return a.Record.ID, nil
			}
			if !errors.Is(err, lifecycle.ErrNoLeader) {
				return "", err
			}
		}
	}
	return "", errors.New("nobody answered")
}

// 200 owners claim five members, on three replicas of which the leader ends midway: five
// win different members, and get the same answer when they ask again.
//
// Shows: platform 14 | maintenance and occupancy of a pool, claim | row by row; a claim starts no
// run
// Shows: platform-mistakes 1 | two claims get one member: 200 claims on 5, three replicas, a leader
// that stops or dies
// Shows: instances 10 | pools and quotas hold under concurrent requests
func TestClaims(t *testing.T) {
	for _, how := range []string{"ends", "dies"} {
		h := ocitest.Handler(t, ocitest.Quirks{})
		synctest.Test(t, func(t *testing.T) {
			slow := &ocitest.Fault{Base: ocitest.Direct{Handler: h}, Times: -1, Do: ocitest.Slow(10 * time.Millisecond)}
			var replicas []*replica
			for range 3 {
				replicas = append(replicas, start(t, slow, ledger.Options{}))
				leader(t, replicas...)
			}
			first, tpl := replicas[0], pooled(5)
			fill(t, first, tpl)
			var wg sync.WaitGroup
			var mu sync.Mutex
			winners := map[string]string{} // member: owner
			for i := range 200 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					owner := fmt.Sprint("owner-", i)
					c := launch(tpl, owner, "", "claim of "+owner)
					id, err := won(t, c, replicas)
					if err != nil {
						if _, full := errors.AsType[*lifecycle.QuotaError](err); !full && !errors.Is(err, lifecycle.ErrPoolEmpty) {
							t.Errorf("%s: %v", owner, err)
						}
						return
					}
					if again, err := won(t, c, replicas); err != nil || again != id {
						t.Errorf("%s got %s, and then %s, %v", owner, id, again, err)
					}
					mu.Lock()
					defer mu.Unlock()
					if winners[id] != "" {
						t.Errorf("%s has two winners, %s and %s", id, winners[id], owner)
					}
					winners[id] = owner
				})
				if i == 20 {
					time.Sleep(30 * time.Millisecond)
					if how == "dies" {
						first.gate.closed.Store(true)
					}
					wg.Go(first.end)
				}
			}
			wg.Wait()
			must.Equal(t, "winners", len(winners), 5)
			last := leader(t, replicas[1:]...)
			v := must.Get(last.View(t.Context()))(t)
			for id, owner := range winners {
				if rec := v.Document.Records[id]; rec == nil || rec.Owner.ID != owner {
					t.Errorf("%s does not belong to %s", id, owner)
				}
			}
			for _, r := range replicas[1:] {
				r.end()
			}
		})
	}
}

// Of fifty concurrent creates, each owner, and all of them together, get what quotas
// allow.
//
// Shows: platform-mistakes 4 | all templates count against one limit; checked first, created later
// Shows: instances 10
func TestQuotaAtOnce(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		tpl := plain()
		tpl.Max = 12
		r := start(t, ocitest.Direct{Handler: h}, ledger.Options{Machine: &lifecycle.Machine{Limits: lifecycle.Limits{Quotas: []lifecycle.Quota{{User: 3}}}}})
		leads(t, r)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				owner := fmt.Sprint("owner-", i%5)
				_, err := r.Do(t.Context(), launch(tpl, owner, "", fmt.Sprint("create ", i)))
				if _, full := errors.AsType[*lifecycle.QuotaError](err); err != nil && !full {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		v := must.Get(r.View(t.Context()))(t)
		count := map[string]int{}
		for _, rec := range v.Document.Records {
			count[rec.Owner.ID]++
		}
		if len(v.Document.Records) != 12 {
			t.Errorf("%d instances, want 12: %v", len(v.Document.Records), count)
		}
		for owner, n := range count {
			if n > 3 {
				t.Errorf("%s has %d", owner, n)
			}
		}
		r.end()
	})
}

// Twenty concurrent first requests, with one key or of one owner who may have one
// instance, make one instance, and get twenty good answers that name it.
//
// Shows: platform-mistakes 8 | the second of two concurrent first requests gets a 500
func TestSameAtOnce(t *testing.T) {
	for _, same := range []bool{true, false} {
		h := ocitest.Handler(t, ocitest.Quirks{})
		synctest.Test(t, func(t *testing.T) {
			tpl := plain()
			tpl.PerOwner = 1
			r := start(t, ocitest.Direct{Handler: h}, ledger.Options{})
			leads(t, r)
			ids := make([]string, 20)
			var wg sync.WaitGroup
			for i := range ids {
				wg.Go(func() {
					key := "the key"
					if !same {
						key = fmt.Sprint("key ", i)
					}
					a, err := r.Do(t.Context(), launch(tpl, "anna", "", key))
					if err != nil {
						t.Error(err)
						return
					}
					ids[i] = a.Record.ID
				})
			}
			wg.Wait()
			for _, id := range ids {
				if id != ids[0] {
					t.Errorf("%s beside %s", id, ids[0])
				}
			}
			if v, err := r.View(t.Context()); err != nil || len(v.Document.Records) != 1 {
				t.Errorf("more than one instance: %v", err)
			}
			r.end()
		})
	}
}
