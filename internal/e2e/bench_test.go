// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// bench is a folder with servers and an environment for paired runs of tools.
type bench struct {
	set tools
	dir string
	env []string
}

func newBench(b *testing.B) *bench {
	b.Helper()
	set := must(findTools())(b)
	set.newKey(b)
	dir := b.TempDir()
	return &bench{set: set, dir: dir, env: []string{
		"HOME=" + dir, "CHECKPOINT_DISABLE=1", "TF_INPUT=0", "TF_CLI_CONFIG_FILE=" + filepath.Join(dir, "cli.tfrc"),
		"PATH=" + strings.Join([]string{filepath.Dir(set.okara), filepath.Dir(set.tofu), os.Getenv("PATH")}, string(os.PathListSeparator)),
	}}
}

// serve starts okara serve and returns its host:port.
func (e *bench) serve(b *testing.B, args ...string) string {
	b.Helper()
	cmd := exec.Command(e.set.okara, append([]string{"serve", "--listen", "127.0.0.1:0", "--storage", filepath.Join(e.dir, "store")}, args...)...)
	cmd.Env = e.env
	p, addr := mustBoth(start(cmd))(b)
	b.Cleanup(p.kill)
	return addr
}

func (e *bench) write(b *testing.B, name, text string) {
	b.Helper()
	name = filepath.Join(e.dir, name)
	succeed(b, os.MkdirAll(filepath.Dir(name), 0o755))
	succeed(b, os.WriteFile(name, []byte(text), 0o644))
}

// run runs a command in a folder and returns how long it took.
func (e *bench) run(b *testing.B, dir, command string) time.Duration {
	b.Helper()
	cmd := exec.Command("sh", "-ec", command)
	cmd.Dir, cmd.Env = filepath.Join(e.dir, dir), e.env
	begin := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", command, err, out)
	}
	return time.Since(begin)
}

// BenchmarkPlan compares a plan on a local state with the same plan on a state in a registry
// on this machine, alternately.
func BenchmarkPlan(b *testing.B) {
	e := newBench(b)
	addr := e.serve(b)
	const config = "resource \"terraform_data\" \"one\" {\n  count = 50\n  input = count.index\n}\n"
	e.write(b, "local/main.tf", config)
	e.write(b, "oci/main.tf", config+fmt.Sprintf("terraform {\n  backend \"oci\" {\n    repository = %q\n  }\n}\n", addr+"/state/bench"))
	e.run(b, "local", "tofu init && tofu apply -auto-approve")
	e.run(b, "oci", "okara tofu init && okara tofu apply -auto-approve")
	var local, remote time.Duration
	n := 0
	for b.Loop() {
		local += e.run(b, "local", "tofu plan")
		remote += e.run(b, "oci", "okara tofu plan")
		n++
	}
	b.ReportMetric(0, "ns/op") // meaningless for a pair
	b.ReportMetric(float64(local.Milliseconds())/float64(n), "local-ms")
	b.ReportMetric(float64(remote.Milliseconds())/float64(n), "oci-ms")
	b.ReportMetric(float64((remote-local).Milliseconds())/float64(n), "extra-ms")
}

// initSize is the size of the provider package in BenchmarkInit.
const initSize = 18 << 20

// BenchmarkInit compares tofu init with a provider through the front-end with oci_mirror
// directly from the registry, alternately, also in which of them goes first.
func BenchmarkInit(b *testing.B) {
	e := newBench(b)
	addr := e.serve(b, "--tls-self-signed", "--hostname", "okara.test")
	e.env = append(e.env, "SSL_CERT_FILE="+filepath.Join(e.dir, "store", "tls", "ca.pem"), "OKARA_REGISTRY="+addr)
	e.padProvider(b)
	e.run(b, ".", "okara publish provider dist acme/time 0.14.2 --sign-key "+e.set.key)
	e.write(b, "front.tfrc", fmt.Sprintf("host \"okara.test\" {\n  services = { \"providers.v1\" = \"https://%s/v1/providers/\" }\n}\n", addr))
	e.write(b, "mirror.tfrc", fmt.Sprintf("provider_installation {\n  oci_mirror {\n    repository_template = \"%s/providers/${namespace}/${type}\"\n    include = [\"okara.test/*/*\"]\n  }\n}\n", addr))
	e.write(b, "app/main.tf", "terraform {\n  required_providers {\n    time = {\n      source = \"okara.test/acme/time\"\n    }\n  }\n}\n")
	initWith := func(config string) float64 {
		took := e.run(b, "app", "rm -rf .terraform .terraform.lock.hcl; TF_CLI_CONFIG_FILE=../"+config+" tofu init")
		return took.Seconds()
	}
	initWith("front.tfrc")
	initWith("mirror.tfrc")
	var front, mirror, ratio []float64
	for b.Loop() {
		var f, m float64
		if len(ratio)%2 == 0 {
			f, m = initWith("front.tfrc"), initWith("mirror.tfrc")
		} else {
			m, f = initWith("mirror.tfrc"), initWith("front.tfrc")
		}
		front, mirror, ratio = append(front, f), append(mirror, m), append(ratio, f/m)
	}
	b.ReportMetric(0, "ns/op") // meaningless for a pair
	b.ReportMetric(1000*median(front), "front-ms")
	b.ReportMetric(1000*median(mirror), "oci-mirror-ms")
	b.ReportMetric(median(ratio), "front/mirror")
}

// padProvider makes a release in the folder dist: the test provider for this platform, padded
// with random bytes to the size.
func (e *bench) padProvider(b *testing.B) {
	b.Helper()
	name := fmt.Sprintf("terraform-provider-time_0.14.2_%s_%s.zip", runtime.GOOS, runtime.GOARCH)
	in := must(zip.OpenReader(filepath.Join(e.set.dist, name)))(b)
	defer in.Close()
	var packed bytes.Buffer
	out := zip.NewWriter(&packed)
	for _, f := range in.File {
		succeed(b, out.Copy(f))
	}
	succeed(b, out.Flush())
	padding := make([]byte, initSize-packed.Len())
	rand.Read(padding) // never fails
	w := must(out.CreateHeader(&zip.FileHeader{Name: "padding", Method: zip.Store}))(b)
	must(w.Write(padding))(b)
	succeed(b, out.Close())
	e.write(b, filepath.Join("dist", name), packed.String())
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
