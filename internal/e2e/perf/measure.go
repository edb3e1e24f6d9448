// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Numbers of measurements of each program.
const (
	serveTimes = 6
	planTimes  = 3
)

// server is a process that listens.
type server struct {
	cmd *exec.Cmd
	url string

	workspace string // with many variables
}

var listens = regexp.MustCompile(`listening on (http://\S+)`)

func startServer(cmd *exec.Cmd) (*server, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd}
	var output bytes.Buffer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		output.WriteString(lines.Text() + "\n")
		if m := listens.FindStringSubmatch(lines.Text()); m != nil {
			s.url = m[1]
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return s, nil
		}
	}
	s.stop()
	return nil, fmt.Errorf("%s does not listen:\n%s", strings.Join(cmd.Args, " "), output.String())
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill() // it has no data to lose
	_ = s.cmd.Wait()
}

func (p program) serve() (*server, error) {
	return startServer(exec.Command(p.file, "serve", "--listen", "127.0.0.1:0", "--storage", filepath.Join(p.dir, "store")))
}

// serving measures a server with warm caches, beside a bare one, and its memory.
func serving(programs []program, _ tools) ([]row, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	rate := row{what: "warm list of versions, 16 connections", unit: "req/s"}
	slow := row{what: "its 99th percentile", unit: "ms"}
	resident := row{what: "memory of an idle server", unit: "MiB"}
	rates := make([][]float64, len(programs))
	slows := make([][]float64, len(programs))
	var bareRates, bareSlows []float64
	const path = "/v1/modules/net/vpc/aws/versions"
	var servers []*server
	for i, p := range programs {
		s, err := p.serve()
		if err != nil {
			return nil, err
		}
		defer s.stop()
		servers = append(servers, s)
		if kept := s.resident(); i == 0 {
			resident.now = kept
		} else {
			resident.base = kept
		}
		for n := range 20 {
			version := "1.0." + strconv.Itoa(n)
			dir := filepath.Join(p.dir, "module", version)
			err := writeTree(dir, map[string]string{"main.tf": "# " + version + "\nvariable \"x\" {}\n"})
			if err == nil {
				_, err = p.command(false, "publish", "module", dir, "net/vpc/aws", version, "--registry", strings.TrimPrefix(s.url, "http://"))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	bare, err := startServer(exec.Command(self, bareCommand, servers[0].url+path))
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	for n := range serveTimes + 1 {
		for i, s := range servers {
			r, p99, err := load(s.url + path)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				rates[i] = append(rates[i], r)
				slows[i] = append(slows[i], p99)
			}
		}
		r, p99, err := load(bare.url + path)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			bareRates = append(bareRates, r)
			bareSlows = append(bareSlows, p99)
		}
	}
	rate.now = median(rates[0])
	slow.now = median(slows[0])
	rate.beside = median(bareRates)
	slow.beside = median(bareSlows)
	if len(programs) > 1 {
		rate.base = median(rates[1])
		slow.base = median(slows[1])
	}
	return []row{rate, slow, resident}, nil
}

// resident is the memory of a process in MiB; 0 where it is unknown.
func (s *server) resident() float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(b)
	if m == nil {
		return 0
	}
	kib, _ := strconv.ParseFloat(string(m[1]), 64) // digits
	return kib / 1024
}

// plans are plans and applies that change nothing, of a small state and of one of 35 MB: by the
// wrapper, which keeps a local state, over the backend "http", and with a block "cloud".
func plans(programs []program, t tools, url func(program) string) ([]work, error) {
	alone := program{file: t.tofu, dir: programs[0].dir}
	dir := func(p program, kind string) string {
		return filepath.Join(p.dir, "plan-"+kind+"-"+filepath.Base(p.file))
	}
	tool := func(p program, kind string, args ...string) (cost, error) {
		words := append([]string{p.file, "tofu"}, args...)
		if kind == "http" || kind == "cloud" || p == alone {
			words = append([]string{t.tofu}, args...)
		}
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = dir(p, kind)
		cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_INPUT=0", "PATH="+filepath.Dir(t.tofu)+string(os.PathListSeparator)+os.Getenv("PATH"))
		if kind == "cloud" {
			cmd.Env = append(cmd.Env, "TF_TOKEN_okara_test=any", "TF_CLI_CONFIG_FILE="+filepath.Join(cmd.Dir, "cli.tfrc"))
		}
		return costOf(cmd)
	}
	for _, kind := range []string{"small", "large", "http", "cloud"} {
		for _, p := range append(slices.Clone(programs), alone) {
			config := "resource \"terraform_data\" \"x\" {\n  count = 35\n  input = file(\"text\")\n}\n"
			if kind == "http" && p != alone {
				config += fmt.Sprintf("terraform {\n  backend \"http\" {\n    address        = \"%[1]s/state/plan/default\"\n    lock_address   = \"%[1]s/state/plan/default/lock\"\n    unlock_address = \"%[1]s/state/plan/default/lock\"\n  }\n}\n", url(p))
			}
			services := "" // as in a CLI configuration
			if kind == "cloud" && p != alone {
				services = fmt.Sprintf("host \"okara.test\" {\n  services = { \"tfe.v2\" = \"%s/api/v2/\" }\n}\n", url(p))
				config += "terraform {\n  cloud {\n    hostname = \"okara.test\"\n    organization = \"plan\"\n    workspaces {\n      name = \"cloud\"\n    }\n  }\n}\n"
			}
			text := strings.Repeat("a text of a state \n", 500_000/19)
			if kind == "small" {
				text = "small"
			}
			err := writeTree(dir(p, kind), map[string]string{"main.tf": config, "text": text, "cli.tfrc": services})
			for _, args := range [][]string{{"init"}, {"apply", "-auto-approve"}} {
				if err == nil {
					_, err = tool(p, kind, args...)
				}
			}
			if err != nil {
				return nil, err
			}
		}
	}
	var all []work
	for _, w := range []struct{ what, kind, verb string }{
		{"plan by the wrapper over a local state", "small", "plan"}, {"apply by the wrapper over a local state", "small", "apply"},
		{"plan of a state of 35 MB by the wrapper", "large", "plan"}, {"plan of a state of 35 MB over the backend http", "http", "plan"},
		{"plan of a state of 35 MB with a block cloud", "cloud", "plan"},
	} {
		args := []string{w.verb, "-compact-warnings"}
		if w.verb == "apply" {
			args = append(args, "-auto-approve")
		}
		all = append(all, work{w.what, planTimes, func(p program, _ bool) (cost, error) { return tool(p, w.kind, args...) }, "tofu alone", func() (cost, error) { return tool(alone, w.kind, args...) }})
	}
	return all, nil
}

// bareCommand makes this program serve the content at a URL, by net/http alone.
const bareCommand = "bare-server"

func serveBare(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return listenBare(resp.Header, body)
}
