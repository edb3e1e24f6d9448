// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// depotAdmin provides the depot pages: record and lock as the registry has them, file and next run
// as this replica has them.
type depotAdmin struct {
	d       *depot.Depot
	store   *statebackend.Store // holds the lock
	runner  *depotRunner        // nil: no runner in this process
	version string              // of okara
	seen    *cache.Cache[*web.DepotView]
}

// adminBytes bounds the memory for the cached view; a record may have 64 MiB.
const adminBytes = 32 << 20

func newDepotAdmin(o Options, d *depot.Depot) (*depotAdmin, error) {
	k := &depotAdmin{d: d, runner: o.depots, version: o.Version}
	if k.runner != nil {
		k.store = k.runner.store
	} else {
		r, err := o.Client.Repo(o.Layout.QueueRepo())
		if err != nil {
			return nil, err
		}
		k.store = statebackend.New(r, statebackend.Options{LockTTL: depotLease, Tool: "okara/" + o.Version, Logger: o.Logger})
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	size := func(v *web.DepotView) int { return (len(v.Entries) + len(v.Versions) + 1) << 10 }
	k.seen = cache.New("depot", adminBytes, size, now, func(string, string) {})
	return k, nil
}

// Depot implements [web.Depot].
func (k *depotAdmin) Depot(ctx context.Context) (web.DepotView, error) {
	read, err := k.seen.Get(ctx, "", cache.Policy{Fresh: 5 * time.Second, Grace: time.Minute, Stale: time.Hour}, func(ctx context.Context, _ *web.DepotView, _ bool) (*web.DepotView, error) { return k.readView(ctx) })
	if err != nil {
		return web.DepotView{}, err
	}
	v := *read
	if k.runner != nil {
		v.Runs = true
		v.Next, v.Last = k.runner.runTimes()
	}
	return v, nil
}

// readView reads the record and the holder of the lock from the registry.
func (k *depotAdmin) readView(ctx context.Context) (*web.DepotView, error) {
	rec, err := supply.ReadRecord(ctx, k.d)
	if err != nil {
		return nil, err
	}
	v := &web.DepotView{Lock: k.store.Repo().Name()}
	l, err := k.store.List(ctx)
	if err != nil {
		return nil, err
	}
	if v.Held, err = l.Held(ctx, depotWorkspace); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	if k.runner != nil {
		if set, err := supply.ReadSet(k.runner.file); err != nil {
			v.Problem = err.Error()
		} else {
			v.Entries = declaredEntries(set)
		}
	}
	for i := range v.Entries {
		known[v.Entries[i].Name] = true
		addRecord(rec, &v.Entries[i], v)
	}
	for _, name := range rec.Names() {
		if !known[name] {
			e := web.DepotEntry{Name: name}
			addRecord(rec, &e, v)
			v.Entries = append(v.Entries, e)
		}
	}
	return v, nil
}

// declaredEntries returns the entries of a depot file, in its order.
func declaredEntries(set *supply.Set) (all []web.DepotEntry) {
	for _, e := range set.Modules {
		all = append(all, web.DepotEntry{Name: e.Key(), Constraint: e.Versions.String(), Origin: e.From(), Declared: true})
	}
	for _, e := range set.Providers {
		all = append(all, web.DepotEntry{Name: e.Key(), Constraint: e.Versions.String(), Origin: e.From(), Declared: true})
	}
	return all
}

func addRecord(rec *supply.Record, e *web.DepotEntry, v *web.DepotView) {
	for _, version := range rec.Versions(e.Name) {
		vr := rec.Entries[e.Name][version]
		since := vr.Since
		switch vr.State {
		case supply.StateWaiting:
			e.Waiting++
		case supply.StateBlocked:
			e.Blocked++
		case supply.StateDrift:
			e.Drifted++
			since = vr.Drifted
		case supply.StateParked: // neither published nor waiting for an approval
		default:
			if e.Published++; e.Newest == "" {
				e.Newest = version
			}
			continue
		}
		v.Versions = append(v.Versions, web.DepotVersion{
			Approval: web.Approval{Entry: e.Name, Version: version, Digest: vr.Digest}, State: string(vr.State), Reason: vr.Reason, Since: since,
		})
	}
}

// Sync implements [web.Depot].
func (k *depotAdmin) Sync() bool {
	if k.runner == nil {
		return false
	}
	k.runner.requestRun()
	k.seen.Forget("") // so that the caller sees the result of the run
	return true
}

// Approve implements [web.Depot]. It reads the record again: the cached view may be old.
func (k *depotAdmin) Approve(ctx context.Context, a web.Approval) (web.Approved, error) {
	it, v, ok := a.Item()
	if !ok {
		return web.Approved{}, conflictError("not a version of a depot")
	}
	defer k.seen.Forget("")
	r, err := k.d.Repo(it.Repository(k.d.Options().Layout))
	if err != nil {
		return web.Approved{}, err
	}
	if there, err := r.Resolve(ctx, v.Tag()); err == nil && there.Digest.String() == a.Digest {
		late, err := k.noteApproval(ctx, a, v) // completes an approval that was cut off
		return web.Approved{Before: true, Late: late}, err
	} else if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return web.Approved{}, err
	}
	rec, err := supply.ReadRecord(ctx, k.d)
	if err == nil {
		_, err = rec.Waits(a.Entry, v, a.Digest)
	}
	if errors.Is(err, supply.ErrOutdated) {
		return web.Approved{}, conflictError("it is not what was shown: " + err.Error() + "; reload the depot page")
	}
	if err != nil {
		return web.Approved{}, err
	}
	out, err := k.d.Approve(ctx, r, v, a.Digest)
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, depot.ErrTaken) {
		return web.Approved{}, conflictError("nothing with this digest is waiting any more; reload the depot page")
	}
	if err != nil {
		return web.Approved{}, err
	}
	late, err := k.noteApproval(ctx, a, v)
	return web.Approved{Late: late, Warnings: out.Warnings}, err
}

func conflictError(text string) error { return &service.Error{Status: http.StatusConflict, Text: text} }

// noteApproval writes an approval into the record, which only the holder of the lock may write.
// If a run holds it, late is true: the next run finds the approved version itself.
func (k *depotAdmin) noteApproval(ctx context.Context, a web.Approval, v addr.Version) (late bool, err error) {
	lock, err := k.store.Lock(ctx, depotWorkspace, depotLockInfo(statebackend.OpApproval, k.version))
	if _, held := errors.AsType[*statebackend.LockedError](err); held {
		if k.runner != nil {
			k.runner.requestRun()
		}
		return true, nil
	}
	if err != nil {
		return false, err
	}
	rec, err := supply.ReadRecord(ctx, k.d)
	if err == nil {
		err = rec.Approved(ctx, k.d, a.Entry, v, a.Digest)
	}
	if errors.Is(err, supply.ErrOutdated) { // a run has recorded it already
		err = nil
	}
	return false, errors.Join(err, lock.Unlock(context.WithoutCancel(ctx)))
}
