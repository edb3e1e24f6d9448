// SPDX-License-Identifier: Apache-2.0

package backendblock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestEachOption: each option of the table sets a field of its own, by its variable.
func TestEachOption(t *testing.T) {
	for _, o := range backendblock.Options() {
		t.Run(o.Name, func(t *testing.T) {
			value := map[backendblock.Kind]string{
				backendblock.Text: "age1/x", backendblock.Flag: "true", backendblock.Number: "7",
				backendblock.Duration: "7s", backendblock.List: "a/x, b/y",
			}[o.Kind]
			read := func(env map[string]string) backendblock.Backend {
				a := backendblock.New("/module")
				must.Succeed(t, a.Environment(func(name string) string { return env[name] }))
				_, _ = a.Backend() // completes it, even if it refuses the value
				return a.Partial()
			}
			if o.Name == "versioning.enabled" {
				value = "false"
			}
			env := map[string]string{"TF_BACKEND_OCI_REPOSITORY": "a/x"}
			without := read(env)
			env[o.Variable()] = value
			if cmp.Equal(without, read(env)) {
				t.Errorf("%s = %s changes nothing", o.Variable(), value)
			}
		})
	}
}

func TestFirstWins(t *testing.T) {
	a := backendblock.New("/module")
	set := func(name string, v cty.Value) {
		t.Helper()
		must.Succeed(t, a.Set(name, v))
	}
	set("repository", cty.StringVal("one/x"))
	set("repository", cty.StringVal("two/x"))
	set("lock_timeout", cty.NullVal(cty.String))
	set("lock_timeout", cty.StringVal("5m"))
	for _, key := range []string{"awskms://a", "key.bin"} {
		if !a.BeginEncryption() {
			t.Fatal("blocks do not count")
		}
		set("encryption.key_id", cty.StringVal(key))
	}
	must.Succeed(t, a.Setting("encryption.key_id", "gcpkms://flag"))
	got := must.Get(a.Backend())(t)
	want := backendblock.Backend{
		Repository: "one/x", LockTimeout: 5 * time.Minute,
		Encryption: []backendblock.Encryption{{KeyID: "awskms://a"}, {KeyID: "/module/key.bin"}},
	}
	must.Match(t, "backend differs", got, want)
	if err := a.Set("repostory", cty.StringVal("x")); err == nil || !strings.Contains(err.Error(), "no argument \"repostory\"\nhint: valid arguments are repository, ") {
		t.Errorf("got %v", err)
	}
}

// TestNoCredentials: an address with a password is refused without showing the password.
func TestNoCredentials(t *testing.T) {
	for _, address := range []string{
		"me:hunter2@host/x", "https://me:hunter2@host/x", "me:hunter2@host/x y", "me:hunt/hunter2@host/x:1", "me:hunter2@",
	} {
		a := backendblock.New("/module")
		must.Succeed(t, a.Set("repository", cty.StringVal(address)))
		_, err := a.Backend()
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "okara login") {
			t.Errorf("%s: %v", address, err)
		}
	}
	a := backendblock.New("/module")
	must.Succeed(t, a.Set("repository", cty.StringVal("host/x@sha256:1")))
	if _, err := a.Backend(); err == nil || !strings.Contains(err.Error(), "has a tag or a digest") {
		t.Errorf("a digest: %v", err)
	}
}
