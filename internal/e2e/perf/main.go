// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == bareCommand {
		fmt.Fprintln(os.Stderr, serveBare(os.Args[2]))
		os.Exit(1)
	}
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == besideCommand:
		err = besides[os.Args[2]](os.Args[3])
	case len(os.Args) > 2 && os.Args[1] == runCommand:
		err = runMeasured(os.Args[2:])
	default:
		err = measure()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

func measure() error {
	base := flag.String("base", "", "program to compare with")
	var t tools
	flag.IntVar(&t.scale, "scale", 1, "how much larger the works are, to see how costs grow; then nothing else is measured")
	flag.StringVar(&t.only, "only", "", "measure only the works whose name has this")
	flag.StringVar(&t.tofu, "tofu", "", "tofu, for plans; empty: none")
	flag.StringVar(&t.oras, "oras", "", "oras, to compare with; empty: none")
	flag.StringVar(&t.registry, "registry", "", "registry of the distribution project, for streams; empty: none")
	out := flag.String("o", "", "file for the page; empty: standard output")
	command := flag.String("command", "make bench", "what made it, as the page says")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	return run(*base, flag.Arg(0), t, *out, *command)
}

// row is one line of the table. Figures are those of the base, if there is one, and of the
// program.
type row struct {
	what, unit string
	base, now  float64
	beside     float64 // of the same work without okara; 0: not measured
}

// tools are third-party programs, by their files, and which works are measured.
type tools struct {
	tofu, oras, registry, only string
	scale                      int
}

type program struct{ file, dir string }

func run(base, okara string, t tools, out, command string) error {
	programs := []program{{file: okara}}
	if base != "" {
		programs = append(programs, program{file: base})
	}
	for i := range programs {
		file, err := filepath.Abs(programs[i].file) // programs run in other folders
		if err != nil {
			return err
		}
		programs[i].file = file
		dir, err := os.MkdirTemp("", "okara-perf-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		programs[i].dir = dir
	}
	costs, err := measureCosts(programs, t)
	if err != nil {
		return err
	}
	if t.scale > 1 || t.only != "" {
		fmt.Print(costs)
		return nil
	}
	var table []row
	for _, measure := range []func([]program, tools) ([]row, error){serving, streams} {
		rows, err := measure(programs, t)
		if err != nil {
			return err
		}
		table = append(table, rows...)
	}
	text := page(table, costs, base != "", command)
	fmt.Print(text)
	if out == "" {
		return nil
	}
	return os.WriteFile(out, []byte(text), 0o644)
}

func page(table []row, costs string, base bool, command string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Performance\n\nMeasured on %s with %d processors (%s/%s, %s) by `%s`.\n", time.Now().UTC().Format("2 January 2006"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), command)
	if load, err := os.ReadFile("/proc/loadavg"); err == nil { // other systems lack the file
		first, _, _ := strings.Cut(string(load), " ")
		fmt.Fprintf(&b, "The load average at the end was %s, where %d is all of the machine and more is the work of others.\n", first, runtime.NumCPU())
	}
	b.WriteString("Medians; what is compared took turns in the same run, so that the ratios hold where the figures do not.\n\n")
	b.WriteString(costs + "\n")
	head := []string{"work", "okara", "without okara", "ratio"}
	if base {
		head = append(head, "before", "of before")
	}
	lines := [][]string{head, slices.Repeat([]string{"---"}, len(head))}
	for _, r := range table {
		cells := []string{r.what, figure(r.now, r.unit), "–", "–"}
		if r.beside > 0 {
			cells[2] = figure(r.beside, r.unit)
			cells[3] = fmt.Sprintf("%.2f", r.now/r.beside)
		}
		if base {
			cells = append(cells, figure(r.base, r.unit), fmt.Sprintf("%.2f", r.now/cmp.Or(r.base, r.now)))
		}
		lines = append(lines, cells)
	}
	b.WriteString(tableText(lines))
	return b.String()
}

func tableText(lines [][]string) string {
	var b strings.Builder
	for _, cells := range lines {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

func figure(v float64, unit string) string {
	if v >= 100 || v == float64(int64(v)) {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

func median(all []float64) float64 {
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)/2]
}

// inTurn measures the programs alternately, times times each, and sets the medians of a
// row. The current program is the first.
func inTurn(r row, programs []program, times int, measure func(program) (float64, error)) (row, error) {
	figures := make([][]float64, len(programs))
	for n := range times + 1 {
		for i, p := range programs {
			v, err := measure(p)
			if err != nil {
				return r, fmt.Errorf("%s: %w", r.what, err)
			}
			if n > 0 { // the first one is a warm-up
				figures[i] = append(figures[i], v)
			}
		}
	}
	r.now = median(figures[0])
	if len(figures) > 1 {
		r.base = median(figures[1])
	}
	return r, nil
}
