// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// planting replaces all that a module's code can reach while it runs; with KEEP not the module.
const planting = `
plant() {
	[ "$KEEP" ] && case $1 in */stub.json|*/module|*/tool|"$PWD") return;; esac
	rm -rf "$1" 2>/dev/null || mv "$1" "$1.moved" 2>/dev/null
	case $KIND in
	file) ln -s "$VICTIM" "$1";;
	folder) ln -s "$STORAGE" "$1";;
	fifo) mkfifo "$1";;
	device) mknod "$1" c 1 5 || ln -s /dev/zero "$1";;
	hard) ln "$VICTIM" "$1" || ln "$0" "$1" || ln stub.json "$1";;
	esac
} 2>/dev/null
everywhere() {
	for name in "$PWD"/* "$PWD"/.[a-z]* "$PWD"/../* /tmp/* /dev/shm/* /run/okara/*/* \
		"$PWD"/errored.tfstate "$PWD"/.terraform.lock.hcl "$PWD"/../plan "$PWD"/../tmp "$PWD"/../../given "$PWD"/../../tmp "$PWD"/../../tool; do
		plant "$name"
	done
}
everywhere
(while sleep 0.01; do plant "$PWD"/../plan; plant "$PWD"/.terraform.lock.hcl; done) > /dev/null 2>&1 &
`

// reading looks for the server's storage wherever a link may have exposed it.
const reading = `cat /tmp/keys/secret /var/tmp/keys/secret /dev/shm/keys/secret ./keys/secret ../keys/secret ../*/keys/secret ../../*/keys/secret ../../*/secret "$STORAGE/keys/secret" 2>/dev/null; echo looked`

// TestPlanted lets the first command of a run replace everything that it can write by
// links to a file and a folder of the server, pipes, devices and hard links, and continue
// during the commands. The server does not read, write, bind or remove anything by these
// names, and does not block, whatever the kind of run.
//
// Shows: platform-attacks 8 | module code that replaces everything it can write by links to files
// and folders, pipes, devices and hard links, between commands and during them
// Shows: instances 7
func TestPlanted(t *testing.T) {
	tofutest.Bubblewrap(t)
	k := newKillTest(t, sandbox.ModeSandbox)
	storage := k.options.Storage
	victim, secret := filepath.Join(storage, "keys", "victim"), filepath.Join(storage, "keys", "secret")
	runtest.MustWrite(t, victim, "untouched-victim")
	runtest.MustWrite(t, secret, "planted-secret-of-the-storage")
	before := must.Get(os.Stat(victim))(t)
	k.tr.Spec.Approve = true
	s := k.attempt(t, runtest.Script{"show": {{Print: "the plan"}}})
	k.mustEnd(t, s, k.mustStart(t, s))
	r, log := k.tr.Result()
	if r.Plan == "" {
		t.Fatalf("%+v\n%s", r, log)
	}
	approved, tag := r.Plan, records.RunTag(s.Ref)
	for _, kind := range []string{"folder", "file", "fifo", "device", "hard"} {
		for keep, all := range map[string][]string{"1": {"made", "approved"}, "": {""}} {
			for _, approve := range all {
				t.Run(strings.Join([]string{kind, keep, approve}, "-"), func(t *testing.T) {
					spec := k.tr.Spec
					spec.Approve, spec.Plan, spec.PlanTag = approve == "made", "", ""
					if approve == "approved" {
						spec.Plan, spec.PlanTag = approved, tag
					}
					env := "KIND=" + kind + " KEEP=" + keep + " STORAGE=" + storage + " VICTIM=" + victim + "\n"
					plant := []runtest.Step{{Sh: env + planting}}
					read := []runtest.Step{{Sh: env + reading}, {Sh: env + planting}}
					s := k.attempt(t, runtest.Script{"init": plant, "plan": read, "show": read, "apply": append(read, runtest.Step{State: runtest.State(1, 1)})})
					k.mustEnd(t, s, k.mustStart(t, s))
					r, log := k.tr.Result()
					for where, text := range map[string]string{"log": log, "plan": r.PlanText, "error": r.Error} {
						if strings.Contains(text, "planted-secret") || strings.Contains(text, "untouched-victim") {
							t.Errorf("the storage is in the %s: %s", where, text)
						}
					}
					if keep != "" && kind == "hard" && !strings.Contains(log+r.PlanText, "looked") {
						t.Errorf("no second command ran: %+v\n%s", r, log)
					}
					if r.Lock != "" {
						if b, err := k.tr.Repo.LockFile(t.Context(), digest.Digest(r.Lock)); err != nil || strings.Contains(string(b), "untouched") || strings.Contains(string(b), "planted") {
							t.Errorf("lock file %q, %v", b, err)
						}
					}
					mustBe(t, victim, "untouched-victim", before)
					mustBe(t, secret, "planted-secret-of-the-storage", nil)
				})
			}
		}
	}
	if entries, err := os.ReadDir(filepath.Join(storage, "keys")); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if entries, err := os.ReadDir(storage); err != nil || len(entries) != 2 {
		t.Errorf("the storage has %v, %v", entries, err)
	}
}

// mustBe compares a file with its expected content and identity.
func mustBe(t *testing.T, name, want string, before os.FileInfo) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil || string(b) != want {
		t.Errorf("%s: %q, %v", name, b, err)
	}
	now, err := os.Lstat(name)
	if err != nil || before != nil && (!os.SameFile(now, before) || now.Mode() != before.Mode() || !ownedBy(now, os.Geteuid())) {
		t.Errorf("%s: %v, %v", name, now, err)
	}
}
