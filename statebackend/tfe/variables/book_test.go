// SPDX-License-Identifier: Apache-2.0

package variables_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

func openBook(t *testing.T, host, key string, via http.RoundTripper) variables.Book {
	t.Helper()
	repo := must.Get(oci.OpenRepo(host+"/state/acme", oci.Options{PlainHTTP: true, Transport: via, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	sealer := must.Get(envelope.New(envelope.Options{Keys: []string{"base64key://" + base64.URLEncoding.EncodeToString([]byte(strings.Repeat(key, 32)))}}))(t)
	return must.Get(variables.Open(repo, sealer, time.Now, nil))(t)
}

func list(t *testing.T, b variables.Book) *variables.Listing {
	t.Helper()
	return must.Get(b.List(t.Context()))(t)
}

func mustPut(t *testing.T, b variables.Book, v variables.Variable) {
	t.Helper()
	must.Succeed(t, list(t, b).PutVariable(t.Context(), v, false, "test"))
}

func values(t *testing.T, b variables.Book) string {
	t.Helper()
	all := must.Get(list(t, b).Variables(t.Context(), "prod"))(t)
	var out []string
	for _, v := range all {
		out = append(out, v.Key+"="+v.Value)
	}
	return strings.Join(out, " ")
}

func variable(id, key, value string) variables.Variable {
	return variables.Variable{ID: strings.Repeat(id, variables.IDLength), Workspace: "prod", Key: key, Value: value, Category: variables.Terraform}
}

// TestUnsealed: a variable that somebody without the keys pushed is refused, and says why.
func TestUnsealed(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	b := openBook(t, host, "a", nil)
	mustPut(t, b, variable("A", "a", "1"))
	forger := b
	forger.Sealer = nil
	mustPut(t, forger, variable("B", "b", "FORGED"))
	if all, err := list(t, b).Variables(t.Context(), "prod"); !errors.Is(err, oci.ErrCorrupt) || !strings.Contains(err.Error(), "is not encrypted with the state keys") {
		t.Errorf("%v, %v", all, err)
	}
}

// TestReseal seals all records again with another key, once.
func TestReseal(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	old := openBook(t, host, "a", nil)
	mustPut(t, old, variable("A", "a", "1"))
	mustPut(t, old, variable("B", "b", "2"))
	next := openBook(t, host, "b", nil)
	if _, err := list(t, next).Variables(t.Context(), "prod"); !errors.Is(err, envelope.ErrKey) {
		t.Errorf("another key reads them: %v", err)
	}
	both := next
	both.Sealer = twoKeys{next.Sealer.(*envelope.Envelope), old.Sealer.(*envelope.Envelope)}
	right := func(seal map[string]string) bool {
		return slices.Equal(envelope.KeyIDs(seal), next.Sealer.(*envelope.Envelope).SealsFor())
	}
	for _, want := range []int{2, 0} {
		if n, err := list(t, both).Reseal(t.Context(), "test", right); err != nil || n != want {
			t.Errorf("%d sealed anew, %v, want %d", n, err, want)
		}
	}
	must.Equal(t, "then there", values(t, next), "a=1 b=2")
}

// twoKeys seals with the first key and opens with both.
type twoKeys struct {
	*envelope.Envelope
	old *envelope.Envelope
}

func (k twoKeys) Open(ctx context.Context, sealed []byte, ann map[string]string, aad []byte) ([]byte, error) {
	plain, err := k.Envelope.Open(ctx, sealed, ann, aad)
	if errors.Is(err, envelope.ErrKey) {
		return k.old.Open(ctx, sealed, ann, aad)
	}
	return plain, err
}

// TestBeingWritten reads the previous record while a newer is written.
func TestBeingWritten(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{NoDelete: true})
	b := openBook(t, host, "a", nil)
	mustPut(t, b, variable("A", "a", "1"))
	mustPut(t, b, variable("A", "a", "2"))
	hidden := &ocitest.Fault{Times: -1, Do: ocitest.Status(http.StatusNotFound, 0), Match: func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "-000002-")
	}}
	must.Equal(t, "there, the one before", values(t, openBook(t, host, "a", hidden)), "a=1")
	must.Equal(t, "there, the newest", values(t, b), "a=2")
}

// TestFull: 500 variables a workspace; what is there can change.
func TestFull(t *testing.T) {
	b := openBook(t, ocitest.New(t, ocitest.Quirks{}), "a", nil)
	numbered := func(n int, workspace string) variables.Variable {
		return variables.Variable{ID: fmt.Sprintf("%0*d", variables.IDLength, n), Workspace: workspace, Key: fmt.Sprintf("k%d", n), Category: variables.Terraform}
	}
	for n := range 500 {
		mustPut(t, b, numbered(n, "prod"))
	}
	if err := list(t, b).PutVariable(t.Context(), numbered(500, "prod"), false, "test"); !errors.Is(err, variables.ErrFull) || !strings.Contains(err.Error(), "at most 500 variables") {
		t.Errorf("one more: %v", err)
	}
	mustPut(t, b, numbered(499, "prod"))
	mustPut(t, b, numbered(501, "dev"))
}

// TestDeleted: a deleted variable is gone, even if the registry does not delete.
func TestDeleted(t *testing.T) {
	for name, quirks := range map[string]ocitest.Quirks{"deletes": {}, "deletes nothing": {NoDelete: true}} {
		t.Run(name, func(t *testing.T) {
			b := openBook(t, ocitest.New(t, quirks), "a", nil)
			mustPut(t, b, variable("A", "a", "1"))
			for range 2 {
				must.Succeed(t, list(t, b).PutVariable(t.Context(), variable("A", "a", "1"), true, "test"))
				must.Equal(t, "there", values(t, b), "")
			}
			left, err := b.Repo.Snapshot(t.Context())
			if want := map[string]int{"deletes": 0, "deletes nothing": 2}[name]; err != nil && !errors.Is(err, oci.ErrNotFound) || len(left.Tags) < want || want == 0 && len(left.Tags) > 0 {
				t.Errorf("left are %v, %v", left.Tags, err)
			}
		})
	}
}
