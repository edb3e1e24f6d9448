// SPDX-License-Identifier: Apache-2.0

package statictoken_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

func newToken(t *testing.T, id string, expires time.Time) statictoken.Token {
	t.Helper()
	text, token := must.GetBoth(statictoken.New(id, []rights.Scope{{Action: rights.Read, Kind: "module", Glob: "acme/**"}}, expires))(t)
	if known, hash, err := statictoken.Hash(text); err != nil || known != id || hash != token.Hash {
		t.Fatalf("%s is the token of %q: %v", id, known, err)
	}
	return token
}

// TestAddToken adds tokens concurrently to a hand-written file.
func TestAddToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	must.Succeed(t, os.WriteFile(file, []byte("# by hand\noks_old_secretsecretsecretsecret read:module:**"), 0o600))
	must.Succeed(t, statictoken.Add(file, newToken(t, "first", time.Time{})))
	want := map[string]statictoken.Token{}
	var running sync.WaitGroup
	for i := range 8 {
		token := newToken(t, fmt.Sprint("t", i), time.Date(2027, 1, 1+i, 0, 0, 0, 0, time.UTC))
		want[token.ID] = token
		running.Go(func() {
			if err := statictoken.Add(file, token); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	got := must.Get(statictoken.Read(file))(t)
	if len(got) != 10 || got[0].ID != "old" || got[1].ID != "first" {
		t.Fatal(got)
	}
	for _, g := range got[2:] {
		must.Match(t, "value", g, want[g.ID])
	}
}

// TestAddTokenRefused leaves a file with the id, or an invalid one, as it is.
func TestAddTokenRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	must.Succeed(t, statictoken.Add(file, newToken(t, "ci", time.Time{})))
	before := must.Get(os.ReadFile(file))(t)
	if err := statictoken.Add(file, newToken(t, "ci", time.Time{})); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("%q, %v", after, err)
	}
	for text, want := range map[string]string{
		"x y\n":                            "x:1: ",
		strings.Repeat("#\n", 1<<19) + "#": "x is larger than 1048576 bytes",
		"\nci sha256:abc read:module:**\n": "x:2: token hash",
		"ci sha256:" + strings.Repeat("0", 64) + " expires=soon read:module:**\n":       "x:1: expires=soon is not a time",
		"ci sha256:" + strings.Repeat("0", 64) + " expires=2027-01-31T00:00:00Z\n":      "x:1: token ci has no scope",
		"ci sha256:" + strings.Repeat("0", 64) + " read:module:** expires=2027-01-31\n": "x:1: scope \"expires",
	} {
		x := filepath.Join(t.TempDir(), "x")
		must.Succeed(t, os.WriteFile(x, []byte(text), 0o600))
		_, err := statictoken.Read(x)
		for _, err := range []error{err, statictoken.Add(x, newToken(t, "new", time.Time{}))} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.80q: %v, want %q", text, err, want)
			}
		}
	}
}
