// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// benchDoor is a way to store a state: its block in the root module, and the tool.
type benchDoor struct{ name, block, tool string }

const benchConfig = "variable \"n\" {}\nresource \"terraform_data\" \"one\" {\n  count = 50\n  input = var.n\n}\nterraform {\n%s}\n"

// BenchmarkApply compares an apply that writes a state to a file, by the wrapper, through
// `cloud`, backend "remote" and backend "http", on one server and alternately. With a
// terraform that loads state storage from providers, named by [statesVar], it also applies
// with the state store, and to a file with the same tool.
func BenchmarkApply(b *testing.B) {
	e := newBench(b)
	addr := e.serve(b)
	e.run(b, ".", "okara cli-config http://"+addr+" --hostname okara.test --write cli.tfrc")
	const block = "  %s {\n    hostname     = \"okara.test\"\n    organization = \"bench\"\n    workspaces {\n      name = \"%s\"\n    }\n  }\n"
	state := "http://" + addr + "/state/bench/http"
	doors := []benchDoor{
		{"local", "", "tofu"},
		{"wrapper", fmt.Sprintf("  backend \"oci\" {\n    repository = %q\n  }\n", addr+"/state/wrapper"), "okara tofu"},
		{"cloud", fmt.Sprintf(block, "cloud", "cloud"), "tofu"},
		{"remote", fmt.Sprintf(block, `backend "remote"`, "remote"), "tofu"},
		{"http", fmt.Sprintf("  backend \"http\" {\n    address        = %q\n    lock_address   = %[1]q\n    unlock_address = %[1]q\n    lock_method    = \"LOCK\"\n    unlock_method  = \"UNLOCK\"\n  }\n", state), "tofu"},
	}
	if os.Getenv(statesVar) != "" {
		doors = append(doors, e.stateStore(b, addr)...)
	}
	took := map[string][]float64{}
	apply := func(d benchDoor, n int) {
		took[d.name] = append(took[d.name], e.run(b, d.name, fmt.Sprintf("%s apply -auto-approve -var n=%d", d.tool, n)).Seconds()*1000)
	}
	for _, d := range doors {
		e.write(b, d.name+"/main.tf", fmt.Sprintf(benchConfig, d.block))
		e.run(b, d.name, d.tool+" init")
		apply(d, 0)
		took[d.name] = nil
	}
	round := 0
	for b.Loop() {
		round++
		for i := range doors { // each of them begins in turn
			apply(doors[(round+i)%len(doors)], round)
		}
	}
	b.ReportMetric(0, "ns/op") // meaningless for applies in turn
	for _, d := range doors {
		b.ReportMetric(median(took[d.name]), d.name+"-ms")
	}
	for _, name := range []string{"cloud", "remote"} {
		b.ReportMetric(median(took[name])-median(took["http"]), name+"-extra-ms")
		b.ReportMetric(median(took[name])/median(took["http"]), name+"/http")
	}
}

// stateStore returns the ways of a terraform that has state stores.
func (e *bench) stateStore(b *testing.B, addr string) []benchDoor {
	b.Helper()
	mirror := filepath.Join(e.dir, "mirror")
	succeed(b, os.CopyFS(filepath.Join(mirror, "okara.test", "okara", "okara"), os.DirFS(e.set.provider)))
	e.write(b, "states.tfrc", fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror))
	tool := "TF_ENABLE_PLUGGABLE_STATE_STORAGE=1 TF_CLI_CONFIG_FILE=../states.tfrc " + os.Getenv(statesVar)
	return []benchDoor{
		{"terraform-local", "", tool},
		{"state_store", fmt.Sprintf(storeBlock, addr+"/state/store", ""), tool},
	}
}
