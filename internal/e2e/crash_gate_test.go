// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// runRequests recognizes the steps of a run by its requests to the registry.
type runRequests struct {
	mu   sync.Mutex // guards done
	done map[string]bool
}

var instancePath = regexp.MustCompile(`^/v2/okara/instances/crash/([a-z-]+)/[a-z0-9]+/(.*)$`)

// step names the gate that a request reaches: source, result or unlock.
func (s *runRequests) step(r *http.Request) (name, step string) {
	m := instancePath.FindStringSubmatch(r.URL.Path)
	if m == nil {
		return "", ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name = m[1]
	switch read := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case read && strings.HasPrefix(m[2], "blobs/") && s.done[name+"/claim"] && !s.done[name+"/result"]:
		return name, "source"
	case read:
	case strings.HasPrefix(m[2], "manifests/locked-"):
		return name, "claim"
	case strings.HasPrefix(m[2], "manifests/run-"):
		return name, "result"
	case s.done[name+"/result"]:
		return name, "unlock"
	}
	return "", ""
}

func (s *runRequests) answered(name, step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[name+"/"+step] = true
}

// answerTool answers the tool's requests in init and in plan.
func (w *crashWorld) answerTool(rw http.ResponseWriter, r *http.Request) {
	step, _, _ := strings.Cut(r.PathValue("step"), ".")
	if !w.pass(r.Context(), r.PathValue("case"), step) {
		return
	}
	if step == "plan" {
		fmt.Fprint(rw, `{"version":4,"terraform_version":"1.9.0","serial":1,"lineage":"plan","outputs":{},"resources":[]}`)
		return
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	if f, err := z.Create("main.tf"); err == nil {
		fmt.Fprintln(f, "# nothing")
	}
	if err := z.Close(); err != nil {
		w.t.Error(err)
	}
	rw.Header().Set("Content-Type", "application/zip")
	_, _ = rw.Write(b.Bytes()) // the tool is dead
}

// crashModule's resources are files; it reaches gates in init, plan, apply and destroy.
const crashModule = `# case CASE
variable "secret" {
  type      = string
  sensitive = true
}
module "init" {
  source = "http://HOST/gate/CASE/init.zip"
}
data "terraform_remote_state" "plan" {
  backend = "http"
  config  = { address = "http://HOST/gate/CASE/plan" }
}
resource "terraform_data" "a" {
  input = "DIR/CASE.a"
  provisioner "local-exec" {
    command = "echo ${self.id} > ${self.input}; echo ${self.id} >> ${self.input}.made; echo $PLANTED ${nonsensitive(var.secret)}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = <<-EOT
      DESTROY
      rm -f ${self.input}
    EOT
  }
}
resource "terraform_data" "b" {
  input      = "DIR/CASE.b"
  depends_on = [terraform_data.a]
  provisioner "local-exec" {
    command = <<-EOT
      echo ${self.id} > ${self.input}; echo ${self.id} >> ${self.input}.made
      APPLY
    EOT
  }
  provisioner "local-exec" {
    when    = destroy
    command = "rm -f ${self.input}"
  }
}
`

const crashTemplate = `
template "crash/CASE" {
  module {
    address = "acme/CASE/any"
  }
  inputs      = { secret = "INPUT" }
  credentials = ["planted"]
  retries     = 3
}
`
