// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"crypto/rand"
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
	"runtime"
	"slices"
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
	"write": func(path string) error {
		scale, _ := strconv.Atoi(os.Getenv("SCALE")) // digits
		at := func(name string) string { return filepath.Join(path, name) }
		return errors.Join(writeTree(at("configuration"), largeModule(scale)), writeTree(at("states"), largeStates(scale)), writeTree(at("many"), manyModules(100*scale)), writeTree(at("readme"), largeReadme()), writeMirror(at("mirror")))
	},
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

// besideOf returns the cost of a work over a folder.
func besideOf(work, dir string) func() (cost, error) {
	return func() (cost, error) { return costOf(exec.Command(os.Args[0], besideCommand, work, dir)) }
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

// works are what people wait for, and what each costs. scale is how much larger they are than those
// of the page: 10 shows how the costs grow.
func works(programs []program, t tools, scale int) (all []work, stop func(), err error) {
	dir := programs[0].dir
	at := func(name string) string { return filepath.Join(dir, name) }
	write := exec.Command(os.Args[0], besideCommand, "write", dir)
	write.Env = append(os.Environ(), "SCALE="+strconv.Itoa(scale))
	if _, err := costOf(write); err != nil {
		return nil, nil, err
	}
	servers := map[string]*server{}
	stop = func() {
		for _, s := range servers {
			s.stop()
		}
	}
	start := func(p program) error {
		if s := servers[p.file]; s != nil {
			s.stop()
		}
		s, err := p.serve()
		servers[p.file] = s
		return err
	}
	host := func(p program) string { return strings.TrimPrefix(servers[p.file].url, "http://") }
	for _, p := range programs {
		if err := start(p); err != nil {
			return nil, stop, err
		}
		for _, args := range [][]string{
			{"publish", "module", at("readme"), "net/readme/aws", "1.0.0", "--registry", host(p)},
			{"state", "push", host(p) + "/state/large", at("states/1.tfstate")},
		} {
			if _, err := p.command(false, args...); err != nil && scale == 1 {
				return nil, stop, err
			}
		}
	}
	origin := program{programs[0].file, at("origin")}
	from, err := origin.serve()
	if err != nil {
		return nil, stop, err
	}
	servers["origin"] = from
	other := strings.TrimPrefix(from.url, "http://")
	if _, err := origin.command(false, "mirror", "acme/large@>=1.0.0", "--from", at("mirror"), "--allow-unsigned", "--default-host", "example.com", "--registry", other, "--quiet"); err != nil {
		return nil, stop, err
	}
	n := 0
	next := func() string { n++; return "l" + strconv.Itoa(n) }
	same := func() string { return "same" }
	command := func(name func() string, args ...string) func(program, bool) (cost, error) {
		return func(p program, count bool) (cost, error) {
			filled := strings.NewReplacer("NS", name(), "HOST", host(p))
			var words []string
			for _, a := range args {
				words = append(words, filled.Replace(a))
			}
			return p.command(count, words...)
		}
	}
	first := func(path string) func(program, bool) (cost, error) { // of a server that has just started
		return func(p program, _ bool) (cost, error) {
			if err := start(p); err != nil {
				return cost{}, err
			}
			return servers[p.file].costDuring(func() error { return get(servers[p.file].url + path) })
		}
	}
	large := []string{"publish", "module", at("configuration"), "NS/large/x", "1.0.0", "--registry", "HOST"}
	// --version, as programs of before VERSION was an argument need.
	many := []string{"publish", "modules", at("many"), "NS/{name}/x", "--version", "1.0.0", "--registry", "HOST", "--quiet"}
	oras := func(times int, what string, run func(program, bool) (cost, error), than string, other func() *exec.Cmd) work {
		if t.oras == "" {
			return work{what, times, run, "", nil}
		}
		return work{what, times, run, than, func() (cost, error) { return costOf(other()) }}
	}
	all = []work{
		oras(20, "start of a command", command(same, "--version"), "oras", func() *exec.Cmd { return exec.Command(t.oras, "version") }),
		{"publish a version of a small module", 8, command(next, "publish", "module", at("many/m1"), "NS/m1/x", "1.0.0", "--registry", "HOST"), "", nil},
		{"publish a module of 527 files, 5 MB", 3, command(next, large...), "parsing them once", besideOf("parse", at("configuration"))},
		{"the same, already there", 3, command(same, large...), "zip", besideOf("zip", at("configuration"))},
		{"publish 100 small modules of a repository", 3, command(next, many...), "", nil},
		{"the same, already there", 3, command(same, many...), "", nil},
		oras(3, "mirror 3 versions of a provider for 6 platforms, 360 MB, from one registry into another", command(next, "mirror", "acme/large@>=1.0.0", "--from", "oci://"+other, "--allow-unsigned", "--default-host", "example.com", "--registry", "HOST/NS", "--quiet"), "oras cp -r", func() *exec.Cmd {
			return exec.Command("sh", "-ec", `for v in 1.0.0 1.1.0 1.2.0; do "$1" cp -r --from-plain-http --to-plain-http "$2/$5:$v" "$3/$4/$5:$v"; done`, "sh", t.oras, other, host(programs[0]), next(), "mirror/example.com/acme/large")
		}),
		{"state diff of two states of 44 MB", 3, command(same, "state", "diff", at("states/1.tfstate"), at("states/2.tfstate")), "encoding/json of both", besideOf("json", at("states"))},
		{"state show of a state of 44 MB", 3, command(same, "state", "show", "HOST/state/large"), "", nil},
		{"its page, the first of a server", 3, first("/ui/states/large/default"), "", nil},
		{"the page of a module, with 100 KB of README, the first of a server", 3, first("/ui/modules/net/readme/aws"), "", nil},
	}
	if t.tofu == "" || scale > 1 {
		return all, stop, nil
	}
	through, err := installs(programs, t, servers)
	if err != nil {
		return nil, stop, err
	}
	more, err := plans(programs, t, func(p program) string { return servers[p.file].url })
	if err != nil {
		return nil, stop, err
	}
	vars, err := variables(programs, servers)
	return slices.Concat(through, more, vars, all), stop, err // before a server starts again, elsewhere
}

// variables are a list of a workspace's 220 variables, and one more.
func variables(programs []program, servers map[string]*server) ([]work, error) {
	n := 0
	add := func(p program) error {
		n++
		_, err := ask(http.MethodPost, servers[p.file].url+"/api/v2/workspaces/"+servers[p.file].workspace+"/vars", fmt.Sprintf(`{"data":{"type":"vars","attributes":{"key":"v%d","value":"1","category":"terraform"}}}`, n))
		return err
	}
	for _, p := range programs {
		body, err := ask(http.MethodPost, servers[p.file].url+"/api/v2/organizations/plan/workspaces", `{"data":{"type":"workspaces","attributes":{"name":"variables"}}}`)
		var made struct{ Data struct{ ID string } }
		if err = errors.Join(err, json.Unmarshal(body, &made)); err != nil {
			return nil, err
		}
		servers[p.file].workspace = made.Data.ID
		for range 220 {
			if err := add(p); err != nil {
				return nil, err
			}
		}
	}
	during := func(do func(p program) error) func(program, bool) (cost, error) {
		return func(p program, _ bool) (cost, error) {
			return servers[p.file].costDuring(func() error { // Linux counts in hundredths of a second
				for range 10 {
					if err := do(p); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	return []work{
		{"a list of 220 variables of a workspace, ten times", 3, during(func(p program) error {
			_, err := ask(http.MethodGet, servers[p.file].url+"/api/v2/workspaces/"+servers[p.file].workspace+"/vars", "")
			return err
		}), "", nil},
		{"one more variable, ten times", 3, during(add), "", nil},
	}, nil
}

// ask sends a request of the API of workspaces and returns the answer.
func ask(method, address, body string) ([]byte, error) {
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if strings.Contains(address, "/api/v2/") {
		req.Header.Set("Content-Type", "application/vnd.api+json")
		req.Header.Set("Authorization", "Bearer any")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: answered with %s: %s", address, resp.Status, answer)
	}
	return answer, err
}

// get requests a page.
func get(address string) error {
	_, err := ask(http.MethodGet, address, "")
	return err
}

// largeReadme is a module whose README has tables, code and links.
func largeReadme() map[string]string {
	const part = "## Part N\n\nWhat [part N](https://example.com/N) is *for*, in `code`:\n\n| name | value |\n|---|---|\n| a | N |\n\n```hcl\nmodule \"n\" {\n  source = \"./N\"\n}\n```\n\n"
	var b strings.Builder
	for n := 0; b.Len() < 100_000; n++ {
		b.WriteString(strings.ReplaceAll(part, "N", strconv.Itoa(n)))
	}
	return map[string]string{"main.tf": "variable \"x\" {}\n", "README.md": b.String()}
}

// writeMirror makes a filesystem mirror of packages that do not compress: 3 versions of a provider for
// 6 platforms, and 8 providers of 50 MB for this one.
func writeMirror(dir string) error {
	write := func(name, version, platform string, size int64) error {
		dir := filepath.Join(dir, "example.com", "acme", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("terraform-provider-%s_%s_%s.zip", name, version, platform)))
		if err != nil {
			return err
		}
		z := zip.NewWriter(f)
		h := &zip.FileHeader{Name: "terraform-provider-" + name + "_v" + version}
		h.SetMode(0o755)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.CopyN(w, rand.Reader, size)
		}
		return errors.Join(err, z.Close(), f.Close())
	}
	var errs []error
	for n := range 18 {
		platform := []string{"linux", "darwin", "freebsd"}[n%3] + []string{"_amd64", "_arm64"}[n%2]
		errs = append(errs, write("large", fmt.Sprintf("1.%d.0", n/6), platform, 20_000_000))
	}
	for n := range 8 {
		errs = append(errs, write("big"+strconv.Itoa(n), "1.0.0", runtime.GOOS+"_"+runtime.GOARCH, 50_000_000))
	}
	return errors.Join(errs...)
}

// largeModule is a module of 31 folders with 17 files each.
func largeModule(scale int) map[string]string {
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
	for dir := range 31 * scale {
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

func manyModules(number int) map[string]string {
	files := map[string]string{}
	for n := range number {
		files[fmt.Sprintf("m%d/main.tf", n)] = fmt.Sprintf("variable \"name\" {\n  description = \"Name of %d.\"\n  type = string\n}\noutput \"name\" {\n  value = var.name\n}\n", n)
	}
	return files
}

// largeStates are two states of 60,000 instances, of which one in 50 differs.
func largeStates(scale int) map[string]string {
	files := map[string]string{}
	for serial := 1; serial <= 2; serial++ {
		var b strings.Builder
		fmt.Fprintf(&b, `{"version":4,"terraform_version":"1.12.0","serial":%d,"lineage":"11111111-2222-3333-4444-555555555555","outputs":{},"check_results":null,"resources":[`, serial)
		for r := range 600 * scale {
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

// installs are init of a root module with 30 modules, and of one with 8 providers of 50 MB, through a
// warm server, beside a server that has the same answers in memory.
func installs(programs []program, t tools, servers map[string]*server) ([]work, error) {
	var modules, providers strings.Builder
	for n := range 30 {
		fmt.Fprintf(&modules, "module \"m%[1]d\" {\n  source  = \"okara.test/thirty/m%[1]d/x\"\n  version = \"1.0.0\"\n}\n", n)
	}
	at := func(name string) string { return filepath.Join(programs[0].dir, name) }
	if _, err := programs[0].command(false, "keys", "new", "--ed25519", "--dir", at("keys")); err != nil {
		return nil, err
	}
	keys, err := filepath.Glob(at("keys/*.asc"))
	if err != nil {
		return nil, err
	}
	key := slices.DeleteFunc(keys, func(name string) bool { return strings.HasSuffix(name, ".pub.asc") })[0]
	for n := range 8 {
		fmt.Fprintf(&providers, "    big%[1]d = { source = \"okara.test/acme/big%[1]d\" }\n", n)
	}
	for _, p := range programs {
		host := strings.TrimPrefix(servers[p.file].url, "http://")
		_, err := p.command(false, "publish", "modules", at("many"), "thirty/{name}/x", "--version", "1.0.0", "--registry", host, "--quiet")
		for n := range 8 {
			if name := "big" + strconv.Itoa(n); err == nil {
				_, err = p.command(false, "publish", "provider", at("mirror/example.com/acme/"+name), "acme/"+name, "1.0.0", "--sign-key", key, "--registry", host, "--quiet")
			}
		}
		if err != nil {
			return nil, err
		}
	}
	still := httptest.NewServer(&recording{of: func() string { return servers[programs[0].file].url }, answers: map[string]answer{}})
	initialize := func(p program, url, root string) (cost, error) {
		dir, err := os.MkdirTemp(p.dir, "init")
		if err != nil {
			return cost{}, err
		}
		defer os.RemoveAll(dir)
		config := fmt.Sprintf("host \"okara.test\" {\n  services = {\n    \"modules.v1\" = \"%[1]s/v1/modules/\"\n    \"providers.v1\" = \"%[1]s/v1/providers/\"\n  }\n}\n", url)
		if err := writeTree(dir, map[string]string{"main.tf": root, "cli.tfrc": config}); err != nil {
			return cost{}, err
		}
		cmd := exec.Command(t.tofu, "init")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_INPUT=0", "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "cli.tfrc"))
		return costOf(cmd)
	}
	var all []work
	for _, w := range [][2]string{{"30 modules", modules.String()}, {"8 providers of 50 MB", "terraform {\n  required_providers {\n" + providers.String() + "  }\n}\n"}} {
		all = append(all, work{"init of a root module with " + w[0], 5, func(p program, _ bool) (cost, error) { return initialize(p, servers[p.file].url, w[1]) },
			"a web server with the same answers", func() (cost, error) { return initialize(programs[0], still.URL, w[1]) }})
	}
	return all, nil
}

// recording answers as another server did at the first request of a path.
type recording struct {
	of      func() string
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
	path, of := r.URL.RequestURI(), s.of()
	key := r.Method + " " + path
	if a, ok := s.answers[key]; ok {
		return a, nil
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, of+path, nil)
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
	own := func(text string) string { return strings.ReplaceAll(text, of, "http://"+r.Host) }
	if at := resp.Header.Get("X-Terraform-Get"); at != "" {
		resp.Header.Set("X-Terraform-Get", own(at))
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") { // addresses of a provider's packages
		body = []byte(own(string(body)))
		resp.Header.Del("Content-Length")
	}
	s.answers[key] = answer{resp.StatusCode, resp.Header, body}
	return s.answers[key], err
}
