// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cost is what a work takes: processor and wall time in milliseconds, peak memory in MiB, and
// requests to a registry, 0 where there are none or they are not counted.
type cost struct{ processor, wall, memory, requests float64 }

// work is a row of the table of costs. run counts requests if it is told so, in the run that is
// not measured.
type work struct {
	what  string
	times int
	run   func(p program, count bool) (cost, error)
	than  string // what it is compared with; "": nothing
	alone func() (cost, error)
}

// runCommand makes this program run another and print its cost: Linux gives a process the peak memory of
// the one that starts it, so a small one starts it.
const runCommand = "run"

func runMeasured(args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return err
	}
	wall := time.Since(begin)
	var memory int64
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		memory = usage.Maxrss
	}
	_, err := fmt.Printf("\ncost %d %d %d\n", (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Microseconds(), wall.Microseconds(), memory)
	return err
}

// costOf runs a command.
func costOf(cmd *exec.Cmd) (c cost, err error) {
	run := exec.Command(os.Args[0], append([]string{runCommand, cmd.Path}, cmd.Args[1:]...)...)
	run.Dir, run.Env = cmd.Dir, cmd.Env
	if run.Path, err = filepath.Abs(run.Path); err != nil {
		return c, err
	}
	out, err := run.CombinedOutput()
	at := bytes.LastIndex(out, []byte("\ncost "))
	if err == nil {
		_, err = fmt.Sscanf(string(out[max(at, 0):]), "\ncost %f %f %f", &c.processor, &c.wall, &c.memory)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out[:min(len(out), 4096)])
	}
	return cost{c.processor / 1000, c.wall / 1000, c.memory / 1024, float64(bytes.Count(out, []byte("registry request")))}, nil
}

// command returns the cost of a command of a program.
func (p program) command(count bool, args ...string) (cost, error) {
	if count {
		args = append(args, "--debug")
	}
	return costOf(exec.Command(p.file, args...))
}

var usageOf = regexp.MustCompile(`(?s)\) \S+(?: \S+){10} (\d+) (\d+) .*VmHWM:\s+(\d+) kB`)

// usage returns a server's processor time, and its peak memory since it was asked last. Linux counts
// in hundredths of a second.
func (s *server) usage() (processor, memory float64, err error) {
	dir := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	stat, err := os.ReadFile(dir + "stat")
	status, err2 := os.ReadFile(dir + "status")
	err3 := os.WriteFile(dir+"clear_refs", []byte("5"), 0)
	m := usageOf.FindSubmatch(append(stat, status...))
	if err := errors.Join(err, err2, err3); err != nil || m == nil {
		return 0, 0, fmt.Errorf("the cost of a server is not known: %w", err)
	}
	number := func(b []byte) float64 { n, _ := strconv.ParseFloat(string(b), 64); return n } // digits
	return 10 * (number(m[1]) + number(m[2])), number(m[3]) / 1024, nil
}

// costDuring returns the cost of a server while something is done.
func (s *server) costDuring(do func() error) (c cost, err error) {
	before, _, err := s.usage()
	if err != nil {
		return c, err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return c, err
	}
	c.wall = float64(time.Since(begin).Microseconds()) / 1000
	c.processor, c.memory, err = s.usage()
	c.processor -= before
	return c, err
}

// measureWork returns a row: the medians of the program, each with its ratio to the base, if there
// is one, and to what stands alone. All take turns.
func measureWork(w work, programs []program) ([]string, error) {
	all := make([][]cost, len(programs)+1)
	requests := make([]float64, len(programs)+1)
	for n := range w.times + 1 {
		for i := range all {
			var c cost
			var err error
			switch {
			case i < len(programs):
				c, err = w.run(programs[i], n == 0)
			case w.alone != nil:
				c, err = w.alone()
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.what, err)
			}
			if n > 0 { // the first one is a warm-up
				all[i] = append(all[i], c)
			} else {
				requests[i] = c.requests
			}
		}
	}
	cells := []string{w.what, cmp.Or(w.than, "–")}
	for _, f := range []struct {
		unit string
		of   func(cost) float64
	}{
		{"ms", func(c cost) float64 { return c.processor }}, {"ms", func(c cost) float64 { return c.wall }},
		{"MiB", func(c cost) float64 { return c.memory }}, {"", nil},
	} {
		figures := requests
		if f.of != nil {
			figures = make([]float64, len(all))
			for i := range all {
				var each []float64
				for _, c := range all[i] {
					each = append(each, f.of(c))
				}
				figures[i] = median(each)
			}
		}
		text := "–"
		if figures[0] > 0 {
			text = strings.TrimSpace(figure(figures[0], f.unit))
		}
		var ratios []string
		for i, other := range figures[1:] {
			if isBase := i+1 < len(programs); figures[0] > 0 && (isBase || w.alone != nil && f.of != nil) {
				ratios = append(ratios, fmt.Sprintf("%.2f", figures[0]/cmp.Or(other, figures[0])))
			}
		}
		if len(ratios) > 0 {
			text += " (" + strings.Join(ratios, "; ") + ")"
		}
		cells = append(cells, text)
	}
	return cells, nil
}

// measureCosts returns the table of costs.
func measureCosts(programs []program, t tools) (string, error) {
	all, stop, err := works(programs, t, t.scale)
	if stop != nil {
		defer stop()
	}
	if err != nil {
		return "", err
	}
	lines := [][]string{{"what people wait for", "compared with", "processor", "wall", "peak memory", "requests"}, {"---", "---", "---", "---", "---", "---"}}
	for _, w := range all {
		if !strings.Contains(w.what, t.only) {
			continue
		}
		cells, err := measureWork(w, programs)
		if err != nil {
			return "", err
		}
		lines = append(lines, cells)
	}
	return "In brackets is the ratio to the figure of before, if there is one, and to that of what it is compared with.\n\n" + tableText(lines), nil
}
