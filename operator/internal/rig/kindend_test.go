// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// slow makes a file, takes seconds, and removes it.
func slow(file, destroy string) string {
	return fmt.Sprintf(`
variable "name" {
  type = string
}

resource "terraform_data" "file" {
  input = var.name

  provisioner "local-exec" {
    command = "echo made > %[1]s; /bin/sleep 5"
  }

  provisioner "local-exec" {
    when    = destroy
    command = "%[2]s"
  }
}

output "text" {
  value = terraform_data.file.output
}
`, file, destroy)
}

// TestNamespaceGoes deletes the namespace of a tenant during a run. The operator
// loses all its rights there, and destroys the created resources anyway.
//
// Shows: kinds 3 | traps T1, T11, T12, T13, T16 are above. The namespace of a tenant is deleted
// during a run, and with it the operator's rights there: all created resources are destroyed
// Shows: kinds 7 | state and lock exist during a run, and are removed with it; an expired token is
// refused, and a plan made earlier is applied with the next token
func TestNamespaceGoes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "made")
	s := newKindSite(t, slow(file, "/bin/rm "+file), nil)
	o := s.create(t, s.greet("okara"))
	exists := func() bool { _, err := os.Stat(file); return err == nil }
	s.carry(o, "the run goes on", exists)
	where := s.okara + "/state/prod." + s.tenant
	if got := s.state("locks", where); !strings.Contains(got, "greetings.hello") {
		t.Errorf("okara state locks says %s", got)
	}
	tenant := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.tenant}}
	s.delete(t, tenant)
	s.carry(o, "it is gone", func() bool { return s.gone(o) })
	if exists() {
		t.Error("what the run made is left")
	}
	s.flux.gone(t, tenant)
	s.flux.gone(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "okara-run-" + string(o.GetUID())}})
	if got := s.state("list", where); strings.Contains(got, "greetings.hello") {
		t.Errorf("okara state list says %s", got)
	}
	if got := s.state("locks", where); strings.Contains(got, "greetings.hello") {
		t.Errorf("okara state locks says %s", got)
	}
}

// TestAbandoned checks that an administrator can abandon resources that cannot be
// destroyed. The state stays, and the next object of the name does not get it.
//
// Shows: kinds 4 | a destroy that keeps failing waits for a day or for an administrator; an
// abandoned object keeps its state
func TestAbandoned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "made")
	s := newKindSite(t, slow(file, "exit 1"), nil)
	o := s.create(t, s.greet("okara"))
	s.carry(o, "it is applied", func() bool { return s.reason(o) == v1alpha1.ReasonApplied })
	s.delete(t, o)
	s.carry(o, "the destroy has failed", func() bool { return strings.Contains(fmt.Sprint(s.terraform(o)), "exit status 1") })
	s.change(t, o, func() { o.SetAnnotations(map[string]string{v1alpha1.AnnotationAbandon: o.GetName()}) })
	s.carry(o, "it is gone", func() bool { return s.gone(o) })
	s.flux.gone(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "okara-run-" + string(o.GetUID())}})
	if got := s.pull(); !strings.Contains(got, "terraform_data") {
		t.Errorf("the state is %s", got)
	}
	next := s.create(t, s.greet("okara"))
	s.carry(next, "it waits for an administrator", func() bool { return s.reason(next) == v1alpha1.ReasonStateExists })
	s.delete(t, next)
	s.carry(next, "it is gone", func() bool { return s.gone(next) })
}
