// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// diary records creation and destruction, which waits for may.
func diary(file, may string) string {
	return fmt.Sprintf(`
variable "name" {
  type = string
}

resource "terraform_data" "entry" {
  input = var.name

  provisioner "local-exec" {
    command = "echo made >> %[1]s"
  }

  provisioner "local-exec" {
    when    = destroy
    command = "test -e %[2]s && echo destroyed >> %[1]s"
  }
}

output "text" {
  value = terraform_data.entry.output
}
`, file, may)
}

// lived is a site whose module keeps a diary.
type lived struct {
	*kindSite
	diary, may string // files
}

func newLived(t *testing.T) *lived {
	t.Helper()
	l := &lived{diary: filepath.Join(t.TempDir(), "diary"), may: filepath.Join(t.TempDir(), "may")}
	l.kindSite = newKindSite(t, diary(l.diary, l.may), nil)
	return l
}

// wrote is what happened outside: diary, versions, text.
func (l *lived) wrote() string {
	l.t.Helper()
	b := must.Get(os.ReadFile(l.diary))(l.t)
	code, state := l.ask(l.admin, http.MethodGet, "")
	state, _, _ = strings.Cut(state, `,"request_id"`) // of an error
	history := l.state("history", l.okara+"/state/prod."+l.tenant, "-w", "greetings.hello", "--json")
	return fmt.Sprint(strings.Fields(string(b)), code, state, history)
}

// same requires that nothing has happened outside the cluster.
func (l *lived) same(since string) {
	l.t.Helper()
	if now := l.wrote(); now != since {
		l.t.Errorf("there was\n%s\nnow there is\n%s", since, now)
	}
	if locks := l.state("locks", l.okara+"/state/prod."+l.tenant); strings.Contains(locks, "greetings.hello") {
		l.t.Errorf("okara state locks says %s", locks)
	}
}

// comes requires that a restored object can be changed, is suspended with why in its
// status, and can be deleted without any effect outside the cluster.
func (l *lived) comes(o *unstructured.Unstructured, why string) {
	l.t.Helper()
	since := l.wrote()
	l.set(o, "back")
	l.carry(o, "it is told", func() bool { return l.reason(o) == v1alpha1.ReasonStateNotOwned })
	if status := fmt.Sprint(o.Object["status"]); !strings.Contains(status, why) {
		l.t.Errorf("it says %s", status)
	}
	run := object(l.t, "apiVersion: infra.contrib.fluxcd.io/v1alpha2\nkind: Terraform\n")
	run.SetNamespace("okara-run-" + string(o.GetUID()))
	run.SetName("greeting-hello")
	l.read(l.t, run)
	if suspended, _, _ := unstructured.NestedBool(run.Object, "spec", "suspend"); !suspended || text(l.t, run, "status", "plan", "pending") != "" {
		l.t.Errorf("it may run: %v", run.Object)
	}
	l.same(since)
	l.delete(l.t, o)
	l.goes(o)
	l.same(since)
}

func (l *lived) applied(name string) *unstructured.Unstructured {
	l.t.Helper()
	o := l.create(l.t, l.greet(name))
	l.carry(o, "it is applied", func() bool { return l.reason(o) == v1alpha1.ReasonApplied })
	return o
}

// goes waits until an object that is being deleted is gone.
func (l *lived) goes(o *unstructured.Unstructured) {
	l.t.Helper()
	if l.gone(o) {
		l.t.Fatal("it is not there")
	}
	l.carry(o, "it is gone", func() bool { return l.gone(o) })
}

// TestClusterRestored restores backups of etcd from before, during and after the
// destroy of an object. A restored object neither plans nor writes, whether its state was
// deleted or belongs to the next object of its name, which the restored cluster does not
// know. Nothing is destroyed twice.
//
// Shows: kinds 11 | etcd is restored to a time before, during and after the destroy of an object:
// the restored object neither plans nor writes, is reported as `StateNotOwned` and suspended, and
// is deleted without a run; a state that the next object created is kept, and waits for an
// administrator
func TestClusterRestored(t *testing.T) {
	l := newLived(t)
	first := l.applied("first")
	before := cluster.Backup(t)
	l.delete(t, first)
	l.carry(first, "its destroy fails", func() bool { return strings.Contains(fmt.Sprint(l.terraform(first)), "exit status 1") })
	during := cluster.Backup(t)
	must.Succeed(t, os.WriteFile(l.may, nil, 0o600))
	l.goes(first)
	after := cluster.Backup(t)

	destroyed := l.wrote()
	if !strings.HasPrefix(destroyed, "[made destroyed]") {
		t.Fatal(destroyed)
	}
	during()
	l.goes(first)
	l.same(destroyed)
	before()
	l.comes(first, "was deleted")

	after()
	next := l.applied("next")
	owner := fmt.Sprintf("belongs to run:%s/%s", l.tenant, next.GetUID())
	kept := l.wrote()
	if !strings.HasPrefix(kept, "[made destroyed made]") {
		t.Fatal(kept)
	}
	during()
	l.goes(first)
	l.same(kept)
	before()
	l.comes(first, owner)
	after()
	third := l.create(t, l.greet("third"))
	l.carry(third, "it waits for an administrator", func() bool { return l.reason(third) == v1alpha1.ReasonStateExists })
	if n, err := l.objects.Unowned(t.Context(), []v1alpha1.ModuleKind{*l.def}); n != 1 || err != nil {
		t.Errorf("%d states are nobody's: %v", n, err)
	}
	l.delete(t, third)
	l.goes(third)
	l.same(kept)
}
