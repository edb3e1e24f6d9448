// SPDX-License-Identifier: Apache-2.0

package runtest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
)

// State returns a state with this many resources.
func State(serial, resources int) string {
	var list []string
	for i := range resources {
		list = append(list, fmt.Sprintf(`{"mode":"managed","type":"t","name":"r%d","instances":[{}]}`, i))
	}
	return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l","outputs":{"url":{"value":"http://a","type":"string"},"key":{"value":"s3cret-value","type":"string","sensitive":true},"other":{"value":1}},"resources":[%s,{"mode":"data","instances":[{}]}]}`,
		serial, strings.Join(append(list, `{"mode":"data","instances":[]}`), ","))
}

// MustWrite writes a file, and makes its folder.
func MustWrite(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)))
}

// MustAppear waits for a file.
func MustAppear(t *testing.T, name string) {
	t.Helper()
	Await(t, name, func() bool {
		_, err := os.Stat(name)
		return err == nil
	})
}

// Await waits until a condition holds.
func Await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for !so() {
		if t.Context().Err() != nil {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Running returns the IDs of the processes whose command line has the word. The command
// line of a dead process is empty.
func Running(t *testing.T, word string) []int {
	t.Helper()
	names := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	var list []int
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil || !slices.Contains(strings.Split(string(b), "\x00"), word) {
			continue
		}
		pid := must.Get(strconv.Atoi(filepath.Base(filepath.Dir(name))))(t)
		list = append(list, pid)
	}
	return list
}

// Kill kills processes, as far as they live.
func Kill(pids []int) error {
	var errs []error
	for _, pid := range pids {
		p, err := os.FindProcess(pid)
		if err == nil {
			err = p.Kill()
		}
		if !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Main is the TestMain of a package whose tests start the test program again: with the name
// of a command as its first argument it runs that command, otherwise the tests.
func Main(m *testing.M, commands map[string]func(args []string) error) {
	if len(os.Args) > 1 {
		if do, ok := commands[os.Args[1]]; ok {
			if err := do(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "error:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// Parse reads the flags of a command into variables, and returns its arguments. A list of
// strings is a flag that may be given several times.
func Parse(args []string, flags map[string]any) ([]string, error) {
	f := flag.NewFlagSet("", flag.ContinueOnError)
	for name, to := range flags {
		switch to := to.(type) {
		case *string:
			f.StringVar(to, name, "", "")
		case *int:
			f.IntVar(to, name, 0, "")
		case *int64:
			f.Int64Var(to, name, 0, "")
		case *bool:
			f.BoolVar(to, name, false, "")
		case *[]string:
			f.Func(name, "", func(value string) error {
				*to = append(*to, value)
				return nil
			})
		default:
			return nil, fmt.Errorf("flag %s is a %T", name, to)
		}
	}
	err := f.Parse(args)
	return f.Args(), err
}
