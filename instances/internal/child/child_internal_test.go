// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

func TestChildApply(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		files := runtest.Script{
			"init":  {{Files: true}, {Environ: true}, {Write: [2]string{lockFileName, "# locked\n"}}},
			"apply": {{Environ: true}, {Other: true}, {State: runtest.State(1, 2)}, {State: runtest.State(2, 3)}, {Print: runtest.Applied}},
		}.Module()
		for _, own := range []string{"terraform.tfvars", "terraform.tfvars.json", "x.auto.tfvars", "y.auto.tfvars.json", "terraform.tfstate", "terraform.tfstate.backup", ".terraform/x", lockFileName, "okara_override.tf"} {
			files[own] = "own"
		}
		files["plain.tfvars"] = "stays"
		tr := newTrial(t, host, files)
		tr.order.Spec.Outputs = []string{"url", "key", "missing"}
		tr.order.Spec.Variables = map[string]json.RawMessage{"name": json.RawMessage(`"${a}"`)}
		r, log := tr.run()
		if r.Outcome != lifecycle.Done || r.Error != "" || !r.State || r.Resources != 3 || r.Lock == "" || r.Head == 0 {
			t.Errorf("report %+v\n%s", r, log)
		}
		must.Match(t, "value", r.Counts, &lifecycle.Counts{Add: 1})
		must.Match(t, "value", r.Outputs, map[string]json.RawMessage{"url": json.RawMessage(`"http://a"`), "missing": json.RawMessage("null")})
		tr.WantState(runtest.State(2, 3))
		tr.MustBeFree()
		if b, err := tr.Repo.LockFile(t.Context(), digest.Digest(r.Lock)); err != nil || string(b) != "# locked\n" {
			t.Errorf("lock file %q, %v", b, err)
		}
		for _, want := range []string{"files [main.tf okara_override.tf plain.tfvars stub.json]", "another workspace: 403", "Apply complete!"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log lacks %q:\n%s", want, log)
			}
		}
		if strings.Contains(log, "own") {
			t.Errorf("something of the module's own stayed:\n%s", log)
		}
		// The same source again, now with its lock file.
		tr.order.Spec.Source.Lock = r.Lock
		tr.module(runtest.Script{"init": {{Environ: true}, {Cat: lockFileName}}, "apply": {{Read: true}}}.Module())
		if r, log = tr.run(); r.Outcome != lifecycle.Done || !strings.Contains(log, "-lockfile=readonly") || !strings.Contains(log, "# locked") || !strings.Contains(log, `"serial":2`) {
			t.Errorf("report %+v\n%s", r, log)
		}
	})
}

// TestChildEnvironment compares the environment of the tool with the expected one.
func TestChildEnvironment(t *testing.T) {
	t.Setenv("OKARA_PLANTED", "planted in the environment")
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"apply": {{Environ: true}}}.Module())
	tr.order.Environment = map[string]string{"AWS_PROFILE_FILE": "${files}/aws"}
	tr.order.Files = map[string][]byte{"aws": []byte("x")}
	_, log := tr.run()
	given := filepath.Join(tr.order.Scratch, "work", "given")
	var got []string
	for line := range strings.Lines(log) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.ContainsAny(name, " :") {
			got = append(got, name)
		}
	}
	want := []string{"AWS_EC2_METADATA_DISABLED", "AWS_PROFILE_FILE", "CHECKPOINT_DISABLE", "HOME", "LANG", "NO_PROXY", "OKARA_RUN", "PATH", "TF_CLI_CONFIG_FILE", "TF_INPUT", "TF_IN_AUTOMATION", "TMPDIR"}
	must.Match(t, "environment", sortedWithout(got, "PWD"), want)
	if !strings.Contains(log, "TF_CLI_CONFIG_FILE="+given+"/tofu.rc") {
		t.Errorf("log %s", log)
	}
	for name, want := range map[string]string{"BASH_ENV": "cannot set the variable BASH_ENV: it ", "TF_INPUT": "set by the run itself"} { // stored by another server
		c := child{Options: Options{Order: tr.order, Getenv: os.Getenv}, dir: &sandbox.Workdir{}, input: run.RemoteInput{Environment: map[string]string{name: "x"}}}
		if _, err := toolEnvironment(&c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s of a workspace: %v", name, err)
		}
	}
	tr.order.Environment = map[string]string{"TF_CLI_ARGS_apply": "-lock=false"}
	if r, _ := tr.run(); r.Outcome != lifecycle.RunFailed || !strings.Contains(r.Error, "TF_CLI_ARGS_apply") {
		t.Errorf("report %+v", r)
	}
	tr.order.Environment = map[string]string{"AWS_ENDPOINT_URL": "http://elsewhere"}
	if r, _ := tr.run(); r.Outcome != lifecycle.RunFailed || !strings.Contains(r.Error, "AWS_ENDPOINT_URL") {
		t.Errorf("report %+v", r)
	}
}

// TestChildPlan applies an approved plan, and refuses any other.
//
// Shows: instances 9 | a plan is applied only after another user has approved it
func TestChildPlan(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		tr := newTrial(t, host, runtest.Script{
			"show":  {{Print: "the plan as text"}},
			"apply": {{Environ: true}, {Cat: "../../given/plan"}, {State: runtest.State(1, 1)}},
		}.Module())
		tr.order.Spec.Approve = true
		r, log := tr.run()
		if r.Outcome != lifecycle.Done || r.Plan == "" || r.State || r.PlanText != "the plan as text\n" || r.PlanSize != 17 || r.Counts == nil || r.Counts.Add != 1 {
			t.Fatalf("report %+v\n%s", r, log)
		}
		tr.MustBeFree()
		tr.order.Spec.Plan, tr.order.Spec.PlanTag = r.Plan, "run-abc-1-1"
		r, log = tr.run()
		if r.Outcome != lifecycle.Done || !r.State || !strings.Contains(log, "plan of tool") || strings.Contains(log, "-var-file") {
			t.Errorf("report %+v\n%s", r, log)
		}
		tr.order.Spec.Plan = digest.FromString("another").String()
		if r, _ = tr.run(); r.Outcome != lifecycle.RunFailed || !strings.Contains(r.Error, "is not the one that was approved") {
			t.Errorf("report %+v", r)
		}
		tr.order.Spec.PlanTag = "run-abc-9-9"
		if r, _ = tr.run(); r.Outcome != lifecycle.Stale {
			t.Errorf("report %+v", r)
		}
		tr.order.Spec.Plan, tr.order.Spec.PlanTag = digest.FromString("plan of tool").String(), "run-abc-1-1"
		tr.module(runtest.Script{"apply": {{Print: runtest.Failure("Saved plan is stale", "it is")}, {Exit: 1}}}.Module())
		if r, _ = tr.run(); r.Outcome != lifecycle.Stale {
			t.Errorf("report %+v", r)
		}
	})
}

// TestChildCost: the report has a plan's cost without values, or none.
func TestChildCost(t *testing.T) {
	const plan = `{"resource_changes":[{"mode":"managed","type":"vm","change":{"before":null,"after":{"size":"planted"},"after_unknown":{}}}]}`
	table := &prices.Table{Currency: "EUR", Rows: []prices.Row{{Type: "vm", Attribute: "size", Value: "planted", Hourly: 7}}}
	for _, tt := range []struct {
		name  string
		show  []runtest.Step
		table *prices.Table
		want  *prices.Cost
	}{
		{"priced", []runtest.Step{{Print: plan}}, table, &prices.Cost{After: 7, Currency: "EUR", Priced: 1}},
		{"without prices", []runtest.Step{{Print: plan}}, nil, nil},
		{"no JSON", []runtest.Step{{Print: "the plan as text"}}, table, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"show": tt.show}.Module())
			tr.order.Spec.Approve, tr.order.Prices = true, tt.table
			r, log := tr.run()
			if diff := cmp.Diff(r.Cost, tt.want); diff != "" || r.Outcome != lifecycle.Done || r.Plan == "" {
				t.Fatalf("%+v\n%s\ncost (-got +want)\n%s", r, log, diff)
			}
			if failed := tt.want == nil && tt.table != nil; strings.Contains(log, "okara: the cost of the plan is unknown") != failed || strings.Contains(log, "planted") {
				t.Errorf("log:\n%s", log)
			}
			must.Match(t, "result", r.Cost, tt.want)
		})
	}
}

func TestChildDriftAndDestroy(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	drifted := `{"@message":"drift","type":"resource_drift","change":{"action":"update"}}`
	tr := newTrial(t, host, runtest.Script{"plan": {{Environ: true}, {Print: drifted}, {Exit: 2}}, "apply": {{Stderr: "never"}}}.Module())
	tr.order.Spec.Ref.Kind = lifecycle.RunDrift
	r, log := tr.run()
	if r.Outcome != lifecycle.Done || r.Counts == nil || r.Counts.Change != 1 || !strings.Contains(log, "-refresh-only -detailed-exitcode") || strings.Contains(log, "never") {
		t.Errorf("report %+v\n%s", r, log)
	}
	tr.module(runtest.Script{}.Module())
	if r, _ = tr.run(); r.Outcome != lifecycle.Done || *r.Counts != (lifecycle.Counts{}) {
		t.Errorf("no drift: %+v", r)
	}
	tr.module(runtest.Script{"plan": {{Print: runtest.Failure("no", "broken")}, {Exit: 1}}}.Module())
	if r, _ = tr.run(); r.Outcome != lifecycle.RunFailed || r.Error != "no: broken" {
		t.Errorf("failed drift: %+v", r)
	}
	tr.module(runtest.Script{"plan": {{Environ: true}}, "apply": {{State: runtest.State(9, 0)}}}.Module())
	tr.order.Spec.Ref.Kind = lifecycle.RunDestroy
	if r, log = tr.run(); r.Outcome != lifecycle.Done || r.Resources != 0 || !strings.Contains(log, "-destroy") {
		t.Errorf("report %+v\n%s", r, log)
	}
}

// A run whose record had resources does nothing without their state: a destroy would succeed.
func TestChildStateGone(t *testing.T) {
	for _, kind := range []lifecycle.RunKind{lifecycle.RunDestroy, lifecycle.RunApply, lifecycle.RunDrift} {
		tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"init": {{Print: "the tool has run"}}}.Module())
		tr.order.Spec.Ref.Kind = kind
		tr.order.Spec.Stored = true
		if r, log := tr.run(); r.Outcome != lifecycle.RunFailed || r.Resources >= 0 || !strings.Contains(r.Error, "no longer has the state") || strings.Contains(log, "the tool has run") {
			t.Errorf("%s: %+v\n%s", kind, r, log)
		}
		tr.MustBeFree()
	}
}

// Shows: crash K8
// Shows: crash K12
// Shows: crash K13
func TestChildFailures(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	for _, tt := range []struct {
		name   string
		script runtest.Script
		change func(*trial)
		want   string
		state  bool
	}{
		{name: "init", script: runtest.Script{"init": {{Stderr: "Error: no such provider"}, {Exit: 1}}}, want: "no such provider"},
		{name: "apply", script: runtest.Script{"apply": {{State: runtest.State(1, 1)}, {Print: runtest.Failure("one", "two")}, {Exit: 1}}}, want: "one: two", state: true},
		{name: "killed", script: runtest.Script{"apply": {{State: runtest.State(1, 1)}, {Die: true}}}, want: "the tool was killed", state: true},
		{name: "not the archive", change: func(tr *trial) { tr.order.Spec.Source.Archive = digest.FromString("x").String() }, want: "404"},
		{name: "no archive", change: func(tr *trial) { tr.order.Spec.Source.Archive = "x" }, want: "is not a digest"},
		{name: "path out of the archive", change: func(tr *trial) { tr.order.Spec.Source.Path = "../.." }, want: "is outside its archive"},
		{name: "no such path", change: func(tr *trial) { tr.order.Spec.Source.Path = "a/b" }, want: "has no folder"},
		{name: "encryption", change: func(tr *trial) { tr.module(map[string]string{"main.tf": "terraform {\n encryption {}\n}"}) }, want: `block "encryption"`},
		{name: "scratch", script: runtest.Script{"init": {{Write: [2]string{"a", strings.Repeat("x", 20000)}}, {Write: [2]string{"b", strings.Repeat("x", 20000)}}}}, change: func(tr *trial) { tr.order.Spec.Limits.Scratch = 1 << 15 }, want: "scratch folder is full"},
		{name: "lock file is a link", script: runtest.Script{"init": {{Link: [2]string{"../tofu.rc", lockFileName}}}}, want: "dependency lock file"},
		{name: "no time", change: func(tr *trial) { tr.order.Spec.Limits.Timeout = time.Nanosecond }, want: "longer than its limit"},
		{name: "timeout", script: runtest.Script{"apply": {{Interrupt: true}, {State: runtest.State(1, 1)}, {Exit: 1}}}, change: func(tr *trial) { tr.order.Spec.Limits.Timeout = 6 * time.Second }, want: "longer than its limit", state: true},
		{name: "deaf", script: runtest.Script{"apply": {{State: runtest.State(1, 1)}, {Deaf: true}}}, change: func(tr *trial) {
			tr.order.Spec.Limits.Timeout, tr.pace.grace = 6*time.Second, 50*time.Millisecond
		}, want: "longer than its limit", state: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTrial(t, host, tt.script.Module())
			tr.order.Spec.Repository = host + "/okara/instances/" + strings.ReplaceAll(tt.name, " ", "-")
			repo := must.Get(oci.OpenRepo(tr.order.Spec.Repository, oci.Options{}))(t)
			tr.Repo.Repo, tr.Store = repo, tr.NewStore(repo)
			tr.module(tt.script.Module())
			if tt.change != nil {
				tt.change(tr)
			}
			r, log := tr.run()
			if r.Outcome != lifecycle.RunFailed || !strings.Contains(r.Error, tt.want) || r.State != tt.state || len(r.Error) > maxError {
				t.Errorf("report %+v\n%s", r, log)
			}
			tr.MustBeFree()
		})
	}
}

// Shows: crash K10
func TestChildStopped(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	tr := newTrial(t, host, runtest.Script{"apply": {{Stderr: "never"}}}.Module())
	tr.names(false, "")
	c := tr.next()
	must.Succeed(t, c.run(t.Context()))
	if _, _, err := run.ReadReport(t.Context(), tr.Repo, tr.order.Spec.Ref); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("an attempt that is not named left a result: %v", err)
	}
	tr.MustBeFree()
	// The ledger stops naming it before it applies.
	var asked atomic.Int32
	once := func() (bool, string, error) { return asked.Add(1) == 1, "", nil }
	tr.named.Store(&once)
	tr.pace.poll = time.Hour
	must.Succeed(t, tr.next().run(t.Context()))
	if _, _, err := run.ReadReport(t.Context(), tr.Repo, tr.order.Spec.Ref); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("an attempt that is not named left a result: %v", err)
	}
	tr.MustBeFree()
	tr.pace.poll = 10 * time.Millisecond
	tr.names(true, "by Anna")
	if r, _ := tr.run(); r.Outcome != lifecycle.Cancelled || r.Error != "by Anna" {
		t.Errorf("cancelled before: %+v", r)
	}
	// Cancelled while it applies: what the tool stores while it ends counts.
	mark := filepath.Join(t.TempDir(), "mark")
	tr.module(runtest.Script{"apply": {{State: runtest.State(1, 1)}, {Mark: mark}, {Interrupt: true}, {State: runtest.State(2, 2)}, {Exit: 1}}}.Module())
	tr.named.Store(new(func() (bool, string, error) {
		if _, err := os.Stat(mark); err == nil {
			return true, "by Ben", nil
		}
		return true, "", nil
	}))
	if r, log := tr.run(); r.Outcome != lifecycle.Cancelled || r.Error != "by Ben" || r.Resources != 2 {
		t.Errorf("report %+v\n%s", r, log)
	}
	tr.WantState(runtest.State(2, 2))
	tr.MustBeFree()
	// A signal to the child has the same effect.
	tr.names(true, "")
	must.Succeed(t, os.Remove(mark))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		runtest.Await(t, mark, func() bool {
			_, err := os.Stat(mark)
			return err == nil || ctx.Err() != nil
		})
		cancel()
	}()
	must.Succeed(t, tr.next().run(ctx))
	if r, log := tr.Result(); r.Outcome != lifecycle.Cancelled || r.Resources != 2 {
		t.Errorf("report %+v\n%s", r, log)
	}
	tr.MustBeFree()
}

// Shows: crash K14
func TestChildHeld(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		tr := newTrial(t, host, runtest.Script{"apply": {{State: runtest.State(1, 1)}}}.Module())
		person := must.Get(tr.Store.Lock(t.Context(), "default", statebackend.LockInfo{ID: "theirs", Who: "anna@laptop"}))(t)
		if r, _ := tr.run(); r.Outcome != lifecycle.Held || !strings.Contains(r.Error, "anna@laptop") || !strings.Contains(r.Error, "okara state unlock") {
			t.Errorf("report %+v", r)
		}
		if err := person.Check(t.Context()); err != nil {
			t.Errorf("the lock of a person: %v", err)
		}
		must.Succeed(t, person.Unlock(t.Context()))
		// A lost attempt left its lock: the next one releases it.
		lost := tr.order.Spec.Ref
		lock := must.Get(tr.Store.Lock(t.Context(), "default", statebackend.LockInfo{ID: run.LockID(lost)}))(t)
		tr.order.Spec.Took = run.LockID(lost)
		if r, log := tr.run(); r.Outcome != lifecycle.Done || r.Head < 100_000 {
			t.Errorf("report %+v\n%s", r, log)
		}
		if err := lock.Check(t.Context()); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("the lock of the lost attempt: %v", err)
		}
		tr.MustBeFree()
	})
}

func sortedWithout(list []string, name string) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == name })
	slices.Sort(list)
	return slices.Compact(list)
}

// TestChildLedger reads the ledger directly, also after it moved to another repository.
func TestChildLedger(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	tr := newTrial(t, host, nil)
	ref := lifecycle.Ref{ID: "abc", Kind: lifecycle.RunApply, N: 2, Attempt: 3, Nonce: "n"}
	l := &ledgerReader{order: &tr.order, number: 1}
	ask := func(want bool, cancel string, ref lifecycle.Ref) {
		t.Helper()
		at, err := l.readNamed(t.Context(), ref)
		if err != nil || at.Named != want || at.Named && at.Cancel != cancel {
			t.Errorf("%+v: %+v, %v", ref, at, err)
		}
	}
	put := func(repository, text string) {
		t.Helper()
		repo := must.Get(oci.OpenRepo(repository, oci.Options{}))(t)
		s := statebackend.New(repo, statebackend.Options{Sealer: tr.Repo.Sealer})
		must.Succeed(t, s.Hold(t.Context(), "ledger", statebackend.LockInfo{}, func(l *statebackend.Lock) error {
			_, err := l.Put(t.Context(), []byte(text))
			return err
		}))
	}
	ask(false, "", ref)
	record := `"records":{"abc":{"id":"abc","run":{"n":2,"attempt":3,"kind":"apply","nonce":"n","cancel":"by Anna"}}}`
	put(tr.order.Spec.Ledger, `{"lineage":"l","serial":1,`+record+`}`)
	ask(true, "by Anna", ref)
	for _, change := range []func(*lifecycle.Ref){
		func(r *lifecycle.Ref) { r.ID = "xyz" }, func(r *lifecycle.Ref) { r.N = 1 }, func(r *lifecycle.Ref) { r.Attempt = 2 },
		func(r *lifecycle.Ref) { r.Nonce = "m" }, func(r *lifecycle.Ref) { r.Kind = lifecycle.RunDestroy },
	} {
		other := ref
		change(&other)
		ask(false, "", other)
	}
	put(tr.order.Spec.Ledger, `{"lineage":"l","serial":2,"moved":{"number":2,"version":1,"digest":"x"},`+record+`}`)
	ask(false, "", ref)
	put(tr.order.Spec.Ledger+"-2", `{"lineage":"l","serial":3,"records":{"abc":{"id":"abc","run":{"n":2,"attempt":3,"kind":"apply","nonce":"n"}}}}`)
	ask(true, "", ref)
}
