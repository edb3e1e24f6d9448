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
	"syscall"
	"time"
)

// Numbers of measurements of each program.
const (
	startTimes   = 20
	serveTimes   = 6
	publishTimes = 8
	planTimes    = 5
)

// starts measures the fixed cost of every command.
func starts(programs []program, _ tools) ([]row, error) {
	memory := map[string][]float64{}
	first, err := inTurn(row{what: "start of a command", unit: "ms"}, programs, startTimes, func(p program) (float64, error) {
		cmd := exec.Command(p.file, "--version")
		ms, err := took(cmd)
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); err == nil && ok {
			memory[p.file] = append(memory[p.file], float64(usage.Maxrss)/1024)
		}
		return ms, err
	})
	if err != nil {
		return nil, err
	}
	resident := row{what: "its memory", unit: "MiB", now: median(memory[programs[0].file])}
	size := row{what: "size of the program", unit: "MiB"}
	for i, p := range programs {
		info, err := os.Stat(p.file)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			size.now = float64(info.Size()) / (1 << 20)
			continue
		}
		resident.base = median(memory[p.file])
		size.base = float64(info.Size()) / (1 << 20)
	}
	return []row{first, resident, size}, nil
}

// server is a process that listens.
type server struct {
	cmd *exec.Cmd
	url string
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

// publish publishes a small module and returns how long it took, and the number of requests.
func (p program) publish(host, version string) (ms float64, requests int, err error) {
	dir := filepath.Join(p.dir, "module")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("# "+version+"\nvariable \"x\" {}\n"), 0o644); err != nil {
		return 0, 0, err
	}
	cmd := exec.Command(p.file, "publish", "module", dir, "net/vpc/aws", version, "--registry", host, "--debug")
	var log bytes.Buffer
	cmd.Stderr = &log
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, 0, fmt.Errorf("publish: %w\n%s", err, log.String())
	}
	return float64(time.Since(begin).Microseconds()) / 1000, strings.Count(log.String(), "registry request"), nil
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
			if _, _, err := p.publish(strings.TrimPrefix(s.url, "http://"), "1.0."+strconv.Itoa(n)); err != nil {
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

// publishing measures publishing one version of a small module with the command, into the
// built-in registry.
func publishing(programs []program, _ tools) ([]row, error) {
	hosts := map[string]string{}
	versions := map[string]int{}
	counts := map[string]int{}
	for _, p := range programs {
		s, err := p.serve()
		if err != nil {
			return nil, err
		}
		defer s.stop()
		hosts[p.file] = strings.TrimPrefix(s.url, "http://")
	}
	all, err := inTurn(row{what: "publish a version of a small module", unit: "ms"}, programs, publishTimes, func(p program) (float64, error) {
		versions[p.file]++
		ms, n, err := p.publish(hosts[p.file], "2.0."+strconv.Itoa(versions[p.file]))
		counts[p.file] = n
		return ms, err
	})
	requests := row{what: "its requests", unit: "requests", now: float64(counts[programs[0].file])}
	if len(programs) > 1 {
		requests.base = float64(counts[programs[1].file])
	}
	return []row{all, requests}, err
}

// plans measures empty plans with the wrapper over a local state, beside the tool alone.
func plans(programs []program, t tools) ([]row, error) {
	tofu := t.tofu
	if tofu == "" {
		return nil, nil
	}
	dirs := map[string]string{}
	commands := map[string][]string{}
	for _, p := range slices.Concat(programs, []program{{file: tofu, dir: programs[0].dir}}) {
		dir := filepath.Join(p.dir, "plan-"+filepath.Base(p.file))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("resource \"terraform_data\" \"x\" {}\n"), 0o644); err != nil {
			return nil, err
		}
		dirs[p.file] = dir
		commands[p.file] = []string{p.file, "tofu"}
		if p.file == tofu {
			commands[p.file] = []string{tofu}
		}
	}
	tool := func(p program, args ...string) (float64, error) {
		words := slices.Concat(commands[p.file], args)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = dirs[p.file]
		cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_INPUT=0", "PATH="+filepath.Dir(tofu)+string(os.PathListSeparator)+os.Getenv("PATH"))
		return took(cmd)
	}
	alone := program{file: tofu}
	var rows []row
	for _, args := range [][]string{{"plan"}, {"apply", "-auto-approve"}} {
		var beside []float64
		r, err := inTurn(row{what: args[0] + " by the wrapper over a local state", unit: "ms"}, programs, planTimes, func(p program) (float64, error) {
			if _, err := os.Stat(filepath.Join(dirs[p.file], ".terraform.lock.hcl")); err != nil && args[0] == "plan" {
				if _, err := tool(p, "init"); err != nil {
					return 0, err
				}
			}
			ms, err := tool(alone, args...)
			if err != nil {
				return 0, err
			}
			beside = append(beside, ms)
			return tool(p, args...)
		})
		if err != nil {
			return nil, err
		}
		r.beside = median(beside)
		rows = append(rows, r)
	}
	return rows, nil
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
