// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// besideCommand makes this program do in a process of its own what a work is compared with.
const besideCommand = "beside"

// besides are the works: they read files, and keep nothing.
var besides = map[string]func(path string) error{
	"parse": func(path string) error {
		return eachFile(path, func(name string, text []byte) error {
			if _, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos); diags.HasErrors() {
				return diags
			}
			return nil
		})
	},
	"zip": func(path string) error {
		z := zip.NewWriter(io.Discard)
		return errors.Join(eachFile(path, func(name string, text []byte) error {
			w, err := z.Create(name)
			if err == nil {
				_, err = w.Write(text)
			}
			return err
		}), z.Close())
	},
	"json": func(path string) error {
		return eachFile(path, func(_ string, text []byte) error {
			var v any
			return json.Unmarshal(text, &v)
		})
	},
}

func eachFile(dir string, use func(name string, text []byte) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return use(path, text)
	})
}

// spent runs a command and returns its processor time in milliseconds.
func spent(cmd *exec.Cmd) (float64, error) {
	if _, err := took(cmd); err != nil {
		return 0, err
	}
	return float64((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Microseconds()) / 1000, nil
}

// besideOf returns the processor time of a work over a folder, the median of three.
func besideOf(work, dir string) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	r, err := inTurn(row{what: work}, []program{{file: self}}, 3, func(p program) (float64, error) {
		return spent(exec.Command(p.file, besideCommand, work, dir))
	})
	return r.now, err
}

func writeTree(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// largeWork measures the processor time of commands over much configuration and large states.
func largeWork(programs []program, _ tools) ([]row, error) {
	dir := programs[0].dir
	module, states, many := filepath.Join(dir, "configuration"), filepath.Join(dir, "states"), filepath.Join(dir, "many")
	if err := errors.Join(writeTree(module, largeModule()), writeTree(states, largeStates()), writeTree(many, manyModules())); err != nil {
		return nil, err
	}
	hosts := map[string]string{}
	for _, p := range programs {
		s, err := p.serve()
		if err != nil {
			return nil, err
		}
		defer s.stop()
		hosts[p.file] = strings.TrimPrefix(s.url, "http://")
	}
	n := 0
	next := func() string { n++; return "l" + strconv.Itoa(n) }
	publish := func(measure func(*exec.Cmd) (float64, error), namespace func() string, args ...string) func(program) (float64, error) {
		return func(p program) (float64, error) {
			ns := namespace()
			words := []string{"publish"}
			for _, a := range args {
				words = append(words, strings.ReplaceAll(a, "NS", ns))
			}
			return measure(exec.Command(p.file, append(words, "--registry", hosts[p.file], "--quiet")...))
		}
	}
	fixed := func() string { return "same" }
	var rows []row
	for _, w := range []struct {
		what, beside, of string
		times            int
		measure          func(program) (float64, error)
	}{
		{"publish a module of 527 files, 5 MB: processor; one parse", "parse", module, 3, publish(spent, next, "module", module, "NS/large/x", "1.0.0")},
		{"the same, already there: processor; one zip", "zip", module, 3, publish(spent, fixed, "module", module, "NS/large/x", "1.0.0")},
		{"publish 100 small modules of a repository", "", "", 3, publish(took, next, "modules", many, "NS/{name}/x", "--version", "1.0.0")},
		{"the same, already there", "", "", 3, publish(took, fixed, "modules", many, "NS/{name}/x", "--version", "1.0.0")},
		{"state diff of two states of 44 MB: processor; encoding/json of both", "json", states, 3, func(p program) (float64, error) {
			return spent(exec.Command(p.file, "state", "diff", filepath.Join(states, "1.tfstate"), filepath.Join(states, "2.tfstate")))
		}},
	} {
		r, err := inTurn(row{what: w.what, unit: "ms"}, programs, w.times, w.measure)
		if err == nil && w.beside != "" {
			r.beside, err = besideOf(w.beside, w.of)
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// largeModule is a module of 31 folders with 17 files each.
func largeModule() map[string]string {
	const block = `variable "vN" {
  description = "The number N of what a module of many parts is given."
  type = object({
    name = string
    size = optional(number, 3)
    tags = optional(map(string), {})
  })
  default = { name = "xN" }
}
locals {
  lN = [for i in range(3) : merge(var.vN.tags, { "name" = "${var.vN.name}-${i}", size = var.vN.size > 2 ? "large" : "small" })]
}
resource "terraform_data" "rN" {
  count = var.vN.size
  input = { name = "${var.vN.name}-${count.index}", tags = local.lN, list = flatten([local.lN, [1, 2, 3]]) }
}
output "oN" {
  description = "What the part N has made."
  value       = terraform_data.rN[*].output
}
`
	files := map[string]string{}
	for dir := range 31 {
		for file := range 17 {
			name := fmt.Sprintf("modules/m%d/f%d.tf", dir, file)
			if dir == 0 {
				name = fmt.Sprintf("f%d.tf", file)
			}
			var b strings.Builder
			for n := range 13 {
				b.WriteString(strings.ReplaceAll(block, "N", fmt.Sprintf("%d_%d", file, n)))
			}
			files[name] = b.String()
		}
	}
	return files
}

func manyModules() map[string]string {
	files := map[string]string{}
	for n := range 100 {
		files[fmt.Sprintf("m%d/main.tf", n)] = fmt.Sprintf("variable \"name\" {\n  description = \"Name of %d.\"\n  type = string\n}\noutput \"name\" {\n  value = var.name\n}\n", n)
	}
	return files
}

// largeStates are two states of 60,000 instances, of which one in 50 differs.
func largeStates() map[string]string {
	files := map[string]string{}
	for serial := 1; serial <= 2; serial++ {
		var b strings.Builder
		fmt.Fprintf(&b, `{"version":4,"terraform_version":"1.12.0","serial":%d,"lineage":"11111111-2222-3333-4444-555555555555","outputs":{},"check_results":null,"resources":[`, serial)
		for r := range 600 {
			fmt.Fprintf(&b, `%s{"mode":"managed","type":"aws_thing","name":"r%d","provider":"provider[\"registry.opentofu.org/hashicorp/aws\"]","instances":[`, comma(r), r)
			for i := range 100 {
				size := i
				if i%50 == 0 {
					size = i + serial
				}
				fmt.Fprintf(&b, `%s{"index_key":%d,"schema_version":1,"attributes":{"id":"i-%[3]d-%[2]d","arn":"arn:aws:ec2:eu-central-1:123456789012:thing/%[3]d-%[2]d","name":"name-%[3]d-%[2]d","tags":{"Name":"n%[3]d","env":"prod","owner":"team-a"},"description":"a sentence about the thing that is as long as in the states of large companies, where such attributes are long, and longer where policies and scripts are kept as text within a state","size":%[4]d,"list":[1,2,3,"a","b"],"nested":[{"cidr":"10.0.0.0/16","from":0,"to":65535,"protocol":"tcp","enabled":true}],"created":"2026-01-01T00:00:00Z"},"sensitive_attributes":[],"private":"bnVsbA==","dependencies":["aws_thing.r0","module.x.aws_thing.y"]}`, comma(i), i, r, size)
			}
			b.WriteString("]}")
		}
		b.WriteString("]}")
		files[strconv.Itoa(serial)+".tfstate"] = b.String()
	}
	return files
}

func comma(n int) string {
	if n == 0 {
		return ""
	}
	return ","
}

// installs measures init of a root module with 30 modules through a warm server, beside a
// server that has the same answers in memory.
func installs(programs []program, t tools) ([]row, error) {
	if t.tofu == "" {
		return nil, nil
	}
	urls := map[string]string{}
	root := ""
	for _, p := range programs {
		s, err := p.serve()
		if err != nil {
			return nil, err
		}
		defer s.stop()
		urls[p.file] = s.url
		host := strings.TrimPrefix(s.url, "http://")
		many := filepath.Join(p.dir, "thirty")
		root = ""
		for n := range 30 {
			text := fmt.Sprintf("variable \"x\" {\n  default = %d\n}\n", n)
			if err := writeTree(many, map[string]string{fmt.Sprintf("m%d/main.tf", n): text}); err != nil {
				return nil, err
			}
			root += fmt.Sprintf("module \"m%[1]d\" {\n  source  = \"okara.test/thirty/m%[1]d/x\"\n  version = \"1.0.0\"\n}\n", n)
		}
		if _, err := took(exec.Command(p.file, "publish", "modules", many, "thirty/{name}/x", "--version", "1.0.0", "--registry", host, "--quiet")); err != nil {
			return nil, err
		}
	}
	still := httptest.NewServer(&recording{of: urls[programs[0].file], answers: map[string]answer{}})
	defer still.Close()
	alone := program{file: "still", dir: programs[0].dir}
	urls[alone.file] = still.URL
	install := func(p program) (float64, error) {
		dir, err := os.MkdirTemp(p.dir, "init")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		config := fmt.Sprintf("host \"okara.test\" {\n  services = { \"modules.v1\" = \"%s/v1/modules/\" }\n}\n", urls[p.file])
		if err := writeTree(dir, map[string]string{"main.tf": root, "cli.tfrc": config}); err != nil {
			return 0, err
		}
		cmd := exec.Command(t.tofu, "init")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_INPUT=0", "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "cli.tfrc"))
		return took(cmd)
	}
	var beside []float64
	r, err := inTurn(row{what: "init of a root module with 30 modules", unit: "ms"}, programs, planTimes, func(p program) (float64, error) {
		ms, err := install(alone)
		if err != nil {
			return 0, err
		}
		beside = append(beside, ms)
		return install(p)
	})
	r.beside = median(beside)
	return []row{r}, err
}

// recording answers as another server did at the first request of a path.
type recording struct {
	of      string
	mu      sync.Mutex // guards answers
	answers map[string]answer
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (s *recording) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, err := s.find(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // an error means that the client is gone
}

func (s *recording) find(r *http.Request) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.RequestURI()
	key := r.Method + " " + path
	if a, ok := s.answers[key]; ok {
		return a, nil
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, s.of+path, nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("User-Agent", r.UserAgent())
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	own := func(text string) string { return strings.ReplaceAll(text, s.of, "http://"+r.Host) }
	if at := resp.Header.Get("X-Terraform-Get"); at != "" {
		resp.Header.Set("X-Terraform-Get", own(at))
	}
	s.answers[key] = answer{resp.StatusCode, resp.Header, body}
	return s.answers[key], err
}
