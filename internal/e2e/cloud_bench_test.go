// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"testing"
)

// BenchmarkApply compares an apply that writes a state through `cloud` and backend
// "remote" with the same through backend "http", on one server and in turn.
func BenchmarkApply(b *testing.B) {
	e := newBench(b)
	addr := e.serve(b)
	e.run(b, ".", "okara cli-config http://"+addr+" --hostname okara.test --write cli.tfrc")
	const config = "variable \"n\" {}\nresource \"terraform_data\" \"one\" {\n  count = 50\n  input = var.n\n}\nterraform {\n%s}\n"
	const block = "  %s {\n    hostname     = \"okara.test\"\n    organization = \"bench\"\n    workspaces {\n      name = \"%s\"\n    }\n  }\n"
	state := "http://" + addr + "/state/bench/http"
	doors := map[string]string{
		"cloud":  fmt.Sprintf(block, "cloud", "cloud"),
		"remote": fmt.Sprintf(block, `backend "remote"`, "remote"),
		"http":   fmt.Sprintf("  backend \"http\" {\n    address        = %q\n    lock_address   = %[1]q\n    unlock_address = %[1]q\n    lock_method    = \"LOCK\"\n    unlock_method  = \"UNLOCK\"\n  }\n", state),
	}
	took := map[string][]float64{}
	apply := func(name string, n int) {
		took[name] = append(took[name], e.run(b, name, fmt.Sprintf("tofu apply -auto-approve -var n=%d", n)).Seconds()*1000)
	}
	for name, text := range doors {
		e.write(b, name+"/main.tf", fmt.Sprintf(config, text))
		e.run(b, name, "tofu init")
		apply(name, 0)
		took[name] = nil
	}
	turns := []string{"http", "cloud", "remote", "http", "remote", "cloud"}
	n := 0
	for b.Loop() {
		n++
		for i, name := range turns {
			apply(name, 10*n+i)
		}
	}
	b.ReportMetric(0, "ns/op") // meaningless for applies in turn
	for name := range doors {
		b.ReportMetric(median(took[name]), name+"-ms")
	}
	for _, name := range []string{"cloud", "remote"} {
		b.ReportMetric(median(took[name])-median(took["http"]), name+"-extra-ms")
		b.ReportMetric(median(took[name])/median(took["http"]), name+"/http")
	}
}
