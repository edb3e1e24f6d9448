// SPDX-License-Identifier: Apache-2.0

package variables_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// replicated copies the states of a repository and then its variables, and returns the result.
func replicated(t *testing.T, from, to variables.Book, reseal bool) variables.Replicated {
	t.Helper()
	src, dst := statebackend.New(from.States, statebackend.Options{}), statebackend.New(to.States, statebackend.Options{})
	if _, err := src.Replicas().Replicate(t.Context(), dst, "prod"); err != nil && !errors.Is(err, oci.ErrNotFound) {
		t.Fatal(err)
	}
	return must.Get(from.Replicate(t.Context(), to, reseal))(t)
}

// TestReplicate: a copy follows, and refuses changes until taken over.
func TestReplicate(t *testing.T) {
	for name, quirks := range map[string]ocitest.Quirks{"deletes": {}, "deletes nothing": {NoDelete: true}} {
		t.Run(name, func(t *testing.T) {
			from, to := openBook(t, ocitest.New(t, quirks), "a", nil), openBook(t, ocitest.New(t, quirks), "a", nil)
			mustPut(t, from, variable("A", "a", "1"))
			mustPut(t, from, variable("B", "b", "2"))
			check := func(want variables.Replicated, has string) {
				t.Helper()
				must.Equal(t, "copied", replicated(t, from, to, false), want)
				must.Equal(t, "the copy", values(t, to), has)
			}
			check(variables.Replicated{Copied: 2}, "a=1 b=2")
			check(variables.Replicated{}, "a=1 b=2")
			mustPut(t, from, variable("A", "a", "3"))
			check(variables.Replicated{Copied: 1}, "a=3 b=2")
			must.Succeed(t, list(t, from).PutVariable(t.Context(), variable("B", "b", ""), true, "test"))
			if quirks.NoDelete {
				check(variables.Replicated{Copied: 1}, "a=3")
			} else {
				check(variables.Replicated{Removed: 1}, "a=3")
			}
			if err := list(t, to).PutVariable(t.Context(), variable("C", "c", "1"), false, "test"); !errors.Is(err, statebackend.ErrReplica) {
				t.Errorf("a copy is written: %v", err)
			}
			must.Get(statebackend.New(to.States, statebackend.Options{}).TakeOver(t.Context(), "prod", statebackend.LockInfo{}))(t)
			mustPut(t, to, variable("C", "c", "1"))
			must.Equal(t, "taken over, it", values(t, to), "a=3 c=1")
			if _, err := from.Replicate(t.Context(), to, false); !errors.Is(err, statebackend.ErrReplica) {
				t.Errorf("what was taken over is copied to: %v", err)
			}
		})
	}
}

// TestReplicateBetween needs keys where nothing deletes, sealing for another path.
func TestReplicateBetween(t *testing.T) {
	from, to := openBook(t, ocitest.New(t, ocitest.Quirks{}), "a", nil), openBook(t, ocitest.New(t, ocitest.Quirks{NoDelete: true}), "a", nil)
	mustPut(t, from, variable("A", "a", "1"))
	replicated(t, from, to, false)
	must.Succeed(t, list(t, from).PutVariable(t.Context(), variable("A", "a", ""), true, "test"))
	without := to
	without.Sealer = nil
	if _, err := from.Replicate(t.Context(), without, false); !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("without keys: %v", err)
	}
	for range 2 {
		replicated(t, from, to, false)
		must.Equal(t, "the copy", values(t, to), "")
	}
	repo := must.Get(oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/other/path", oci.Options{PlainHTTP: true}))(t)
	elsewhere := must.Get(variables.Open(repo, from.Sealer, time.Now, nil))(t)
	mustPut(t, from, variable("B", "b", "2"))
	must.Equal(t, "to another path", replicated(t, from, elsewhere, false), variables.Replicated{Left: 1})
	for _, want := range []variables.Replicated{{Copied: 1}, {}} {
		must.Equal(t, "sealed anew", replicated(t, from, elsewhere, true), want)
	}
	must.Equal(t, "the copy", values(t, elsewhere), "b=2")
}
