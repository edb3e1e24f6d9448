// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
)

// adminSite is a depotAdmin over a registry of this test alone.
type adminSite struct {
	*depotAdmin
	client *oci.Client
	layout addr.Layout
	count  *ocitest.Count
	now    time.Time
}

func newAdminSite(t *testing.T, file string) *adminSite {
	t.Helper()
	host := ocitest.New(t, ocitest.Quirks{})
	s := &adminSite{layout: addr.Layout{Prefix: "acme"}, count: &ocitest.Count{}, now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	var err error
	if s.client, err = oci.New(host, oci.Options{PlainHTTP: true, Transport: s.count}); err != nil {
		t.Fatal(err)
	}
	queue := must.Get(s.client.Repo(s.layout.QueueRepo()))(t)
	o := Options{Options: registry.Options{Client: s.client, Layout: s.layout, Now: func() time.Time { return s.now }}}
	if file != "" {
		o.depots = &depotRunner{file: file, store: statebackend.New(queue, statebackend.Options{}), force: make(chan struct{}, 1)}
	}
	if s.depotAdmin, err = newDepotAdmin(o, depot.New(depot.Options{Client: s.client, Layout: s.layout})); err != nil {
		t.Fatal(err)
	}
	return s
}

// hold publishes a module version that a gate holds back, and returns its digest.
func (s *adminSite) hold(t *testing.T, version, text string) string {
	t.Helper()
	_, err := s.d.PublishModule(t.Context(), depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{
		Check: func(context.Context, depot.Candidate) error { return errors.New("waiting for approval") },
	})
	held, ok := errors.AsType[*depot.HeldError](err)
	if !ok {
		t.Fatal(err)
	}
	return held.Digest
}

// record writes a record of one module, as a run would.
func (s *adminSite) record(t *testing.T, versions map[string]supply.VersionRecord) {
	t.Helper()
	b := must.Get(json.Marshal(supply.Record{SchemaVersion: 1, Entries: map[string]map[string]supply.VersionRecord{"module net/vpc/aws": versions}}))(t)
	const kind = "application/vnd.okara.depot.v1"
	blob := oci.BytesBlob(kind+"+json", b)
	must.Succeed(t, artifact.PutDocument(t.Context(), depottest.MustRepo(t, s.client, s.layout.CatalogRepo()), "okara-depot", kind, blob, nil))
}

func (s *adminSite) view(t *testing.T) web.DepotView {
	t.Helper()
	return must.Get(s.Depot(t.Context()))(t)
}

// TestDepotAdminReads combines file, record and lock, cached without requests.
func TestDepotAdminReads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "depot.hcl")
	write := func(text string) { must.Succeed(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("module \"net/vpc/aws\" {\n  source = \"git::https://user:hunter2@git.example.com/vpc.git\"\n  versions = \"~> 1.0\"\n}\nprovider \"hashicorp/time\" {}\n")
	s := newAdminSite(t, file)
	if v := s.view(t); !v.Runs || len(v.Entries) != 2 || v.Held != nil || v.Problem != "" {
		t.Errorf("before the first run: %+v", v)
	}
	drifted := s.now.Add(-time.Hour)
	s.record(t, map[string]supply.VersionRecord{
		"1.0.0": {State: supply.StatePublished, Digest: "a"}, "1.10.0": {State: supply.StatePublished, Digest: "b"}, "1.2.0": {State: supply.StateWaiting, Digest: "c", Since: drifted},
		"1.3.0": {State: supply.StateBlocked, Digest: "d"}, "1.4.0": {State: supply.StateDrift, Digest: "e", Since: s.now, Drifted: drifted, Reason: "moved"},
	})
	must.Get(s.store.Lock(t.Context(), depotWorkspace, depotLockInfo("depot", "1.2.3")))(t)
	s.seen.Forget("")
	s.count.Take()
	v := s.view(t)
	if n := s.count.Take(); len(n) > 4 {
		t.Errorf("a cold view takes %v, want the record's manifest and blob, a list and a claim", n)
	}
	e := v.Entries[0]
	if e.Name != "module net/vpc/aws" || e.Constraint != "~> 1.0" || e.Newest != "1.10.0" || e.Published != 2 || e.Waiting != 1 || e.Blocked != 1 || e.Drifted != 1 || !e.Declared {
		t.Errorf("the entry is %+v", e)
	}
	if !strings.Contains(e.Origin, "git.example.com/vpc.git") || strings.Contains(e.Origin, "hunter2") || v.Entries[1].Origin != "registry.opentofu.org" {
		t.Errorf("origins %q and %q", e.Origin, v.Entries[1].Origin)
	}
	if v.Held == nil || !strings.HasPrefix(v.Held.Info.Who, "okara serve on ") || v.Lock != "acme/"+"queue" && v.Lock != s.layout.QueueRepo() {
		t.Errorf("held %+v in %s", v.Held, v.Lock)
	}
	i := slices.IndexFunc(v.Versions, func(v web.DepotVersion) bool { return v.State == "drift" })
	if len(v.Versions) != 3 || i < 0 || !v.Versions[i].Since.Equal(drifted) || v.Versions[i].Reason != "moved" {
		t.Errorf("versions %+v", v.Versions)
	}
	write("nonsense")
	s.view(t)
	if n := s.count.Take(); len(n) != 0 {
		t.Errorf("a warm view takes %v", n)
	}
	s.seen.Forget("")
	if v := s.view(t); v.Problem == "" || len(v.Entries) != 1 || v.Entries[0].Declared {
		t.Errorf("with a broken file: %+v", v)
	}
	if v := newAdminSite(t, "").view(t); v.Runs || len(v.Entries) != 0 {
		t.Errorf("without a file: %+v", v)
	}
}

// TestDepotAdminApproves publishes only the digest that the approver saw.
func TestDepotAdminApproves(t *testing.T) {
	s := newAdminSite(t, "")
	old := s.hold(t, "1.0.0", `output "a" { value = 1 }`)
	now := s.hold(t, "1.0.0", `output "b" { value = 2 }`)
	blocked := s.hold(t, "1.1.0", `output "c" { value = 3 }`)
	s.record(t, map[string]supply.VersionRecord{
		"1.0.0": {State: supply.StateWaiting, Digest: now, Reason: "waiting for approval"}, "1.1.0": {State: supply.StateBlocked, Digest: blocked},
		"1.2.0": {State: supply.StateWaiting, Digest: now},
	})
	repo := depottest.MustRepo(t, s.client, s.layout.Module(depottest.VPC()))
	before := depottest.MustTags(t, repo)
	for _, c := range []struct{ name, version, digest string }{
		{"a digest that changed", "1.0.0", old}, {"a version that is blocked", "1.1.0", blocked}, {"no candidate", "1.2.0", now}, {"no such version", "1.3.0", now}, {"no digest", "1.0.0", ""},
	} {
		_, err := s.Approve(t.Context(), web.Approval{Entry: "module net/vpc/aws", Version: c.version, Digest: c.digest})
		if own, ok := errors.AsType[*service.Error](err); !ok || own.Status != http.StatusConflict {
			t.Errorf("%s: %v, want a conflict", c.name, err)
		}
	}
	if after := depottest.MustTags(t, repo); !slices.Equal(before, after) {
		t.Errorf("tags %v after refusals, want %v", after, before)
	}
	a := web.Approval{Entry: "module net/vpc/aws", Version: "1.0.0", Digest: now}
	if done, err := s.Approve(t.Context(), a); err != nil || done.Before || done.Late {
		t.Errorf("%+v, %v", done, err)
	}
	if m := depottest.MustFetch(t, repo, "1.0.0"); m.Digest.String() != now {
		t.Errorf("published is %s, want %s", m.Digest, now)
	}
	if v := s.view(t); v.Entries[0].Published != 1 || v.Entries[0].Waiting != 1 || v.Held != nil {
		t.Errorf("the record says %+v", v.Entries[0])
	}
	if done, err := s.Approve(t.Context(), a); err != nil || !done.Before {
		t.Errorf("once more: %+v, %v", done, err)
	}
}

// TestDepotAdminApprovesInRun publishes although a run holds the lock of the record.
func TestDepotAdminApprovesInRun(t *testing.T) {
	s := newAdminSite(t, "depot.hcl")
	digest := s.hold(t, "1.0.0", `output "a" { value = 1 }`)
	s.record(t, map[string]supply.VersionRecord{"1.0.0": {State: supply.StateWaiting, Digest: digest}})
	queue := depottest.MustRepo(t, s.client, s.layout.QueueRepo())
	must.Get(statebackend.New(queue, statebackend.Options{}).Lock(t.Context(), depotWorkspace, depotLockInfo("depot", "")))(t)
	done, err := s.Approve(t.Context(), web.Approval{Entry: "module net/vpc/aws", Version: "1.0.0", Digest: digest})
	if err != nil || !done.Late || len(s.runner.force) != 1 {
		t.Errorf("%+v, %v; %d runs asked for", done, err, len(s.runner.force))
	}
	depottest.MustFetch(t, depottest.MustRepo(t, s.client, s.layout.Module(depottest.VPC())), "1.0.0")
}

// TestDepotLease: a killed server's lock is free in minutes, and noticed.
func TestDepotLease(t *testing.T) {
	file := filepath.Join(t.TempDir(), "depot.hcl")
	must.Succeed(t, os.WriteFile(file, []byte("interval = \"1h\"\n"), 0o600))
	s := newAdminSite(t, file)
	settings := &Settings{}
	settings.Depot = file
	r := must.Get(newDepotRunner(settings, Options{Options: registry.Options{Client: s.client, Layout: s.layout}, Metrics: NewMetrics()}, Env{}))(t)
	for name, store := range map[string]*statebackend.Store{"runner": r.store, "desk": newAdminSite(t, "").store} {
		lock := must.Get(store.Lock(t.Context(), depotWorkspace, depotLockInfo(name, "1.0.0")))(t)
		if _, ttl := lock.Lease(); ttl != depotLease {
			t.Errorf("the lock of the %s is kept for %v", name, ttl)
		}
		must.Succeed(t, lock.Unlock(t.Context()))
	}
	if wait := depotWait(time.Hour, true); wait > depotLease/3 {
		t.Errorf("who waits for the lock looks again after %v", wait)
	}
	if wait := depotWait(time.Hour, false); wait < 50*time.Minute {
		t.Errorf("the next run is after %v", wait)
	}
}
