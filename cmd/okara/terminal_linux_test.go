// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
)

// onTerminal runs a command on a terminal, with an answer.
func onTerminal(t *testing.T, answer string, env map[string]string, args ...string) (code int, shown string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no terminals to give: %v", err)
	}
	defer master.Close()
	must.Succeed(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n := must.Get(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))(t)
	terminal := must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	must.Succeed(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 160}))
	all := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(master) // EIO once the terminal is closed
		all <- string(b)
	}()
	home := t.TempDir()
	var in io.Reader = strings.NewReader("")
	if answer != "" {
		in = terminal
		must.Get(master.WriteString(answer + "\n"))(t)
	}
	code = runCommand(t.Context(), args, in, terminal, terminal, func(name string) string {
		if name == "HOME" {
			return home
		}
		return env[name]
	})
	terminal.Close()
	return code, <-all
}

// TestTerminal: highlights and bars on a terminal, text in pipes.
func TestTerminal(t *testing.T) {
	host, module := newWrites(t).host, newModuleDir(t)
	mustWrite(t, filepath.Join(module, "prod.tfvars"), []byte("a = 1\n"))
	publish := []string{"publish", "module", module, "net/vpc/aws", "1.0.0", "--registry", host}
	code, shown := onTerminal(t, "", nil, publish...)
	if code != cli.ExitOK || !strings.Contains(shown, "\x1b[33mwarning:\x1b[0m skipped") || !strings.Contains(shown, "net/vpc/aws 1.0.0 (packing)") {
		t.Errorf("exit %d, without a bar or the colour of the warning: %q", code, shown)
	}
	mustWrite(t, filepath.Join(module, "more.tf"), []byte("locals {}\n"))
	if code, shown := onTerminal(t, "", nil, publish...); code != cli.ExitConflict || !strings.Contains(shown, "\x1b[31mokara:\x1b[0m publish net/vpc/aws") || !strings.Contains(shown, "\x1b[36mhint:\x1b[0m ") {
		t.Errorf("exit %d, without the colours of a failure: %q", code, shown)
	}
	one := newFile(t, "one", `{"version":4,"serial":1,"lineage":"a","resources":[]}`)
	two := newFile(t, "two", `{"version":4,"serial":2,"lineage":"a","resources":[{"mode":"managed","type":"x","name":"y","provider":"p","instances":[{"attributes":{}}]}]}`)
	if code, shown := onTerminal(t, "", nil, "state", "diff", one, two); code != cli.ExitOK || !strings.Contains(shown, "\x1b[32m+ x.y\x1b[0m") {
		t.Errorf("exit %d, without the colour of what was added: %q", code, shown)
	}
	if _, shown := onTerminal(t, "", nil, "list", "--registry", host); !strings.HasPrefix(shown, "KIND    ADDRESS      NEWEST  PUBLISHED\r\nmodule  net/vpc/aws  1.0.0   20") {
		t.Errorf("a list without its heading, newest version or date: %q", shown)
	}
	states := host + "/infra/listed"
	okara(t, "state", "push", states, one)
	if _, shown := onTerminal(t, "", nil, "state", "list", states); !strings.HasPrefix(shown, "WORKSPACE  VERSION  AGE  LOCK\r\ndefault    1 ") {
		t.Errorf("a list of states without version, age and lock: %q", shown)
	}
	dir := filepath.Join(t.TempDir(), "registry.opentofu.org", "acme", "dns")
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	const zip = "terraform-provider-dns_1.0.0_linux_amd64.zip"
	b := must.Get(os.ReadFile(filepath.Join(newRelease(t, 1, 1<<20), zip)))(t)
	mustWrite(t, filepath.Join(dir, zip), b)
	mirror := []string{"mirror", "acme/dns", "--from", filepath.Dir(filepath.Dir(filepath.Dir(dir))), "--allow-unsigned", "--registry", host}
	if code, shown := onTerminal(t, "", nil, mirror...); code != cli.ExitOK || !strings.Contains(shown, "versions ") || !strings.Contains(shown, "1 / 1") {
		t.Errorf("exit %d, without a bar of versions: %q", code, shown)
	}
	for name, shown := range map[string]string{
		"NO_COLOR": second(onTerminal(t, "", map[string]string{"NO_COLOR": "1"}, "state", "diff", one, two)),
		"a pipe":   okara(t, publish...).err + okara(t, "state", "diff", one, two).out + okara(t, mirror...).err,
		"--quiet":  strings.ReplaceAll(second(onTerminal(t, "", map[string]string{"NO_COLOR": "1"}, append(publish, "--quiet")...)), "\r", ""),
	} {
		if strings.Contains(shown, "\x1b") || strings.Contains(shown, "(packing)") || shown == "" {
			t.Errorf("%s: %q", name, shown)
		}
	}
}

// TestAsks: on a terminal it asks, "no" changes nothing; scripts go on.
func TestAsks(t *testing.T) {
	w := newWrites(t)
	mustOkara(t, "publish", "module", newModuleDir(t), "net/vpc/aws", "1.0.0", "--registry", w.host)
	state := newFile(t, "state", `{"version":4,"serial":1,"lineage":"a","resources":[]}`)
	config := newFile(t, "config", "provider_installation {\n  direct {}\n}\n")
	for _, args := range [][]string{
		{"state", "push", w.host + "/infra/state", state},
		{"state", "restore", w.host + "/infra/state", "1"},
		{"yank", "net/vpc/aws@1.0.0", "--registry", w.host},
		{"cli-config", "https://okara.example.com", "--write", config},
	} {
		name := strings.Join(args[:2], " ")
		before := w.n.Load()
		if code, shown := onTerminal(t, "n", nil, args...); code != cli.ExitFailure || !strings.Contains(shown, "? [y/N] ") || w.n.Load() != before {
			t.Errorf("%s: exit %d, %d writes after a no: %q", name, code, w.n.Load()-before, shown)
		}
		if code, shown := onTerminal(t, "y", nil, args...); code != cli.ExitOK || !strings.Contains(shown, "[y/N]") {
			t.Errorf("%s: exit %d: %q", name, code, shown)
		}
		if code, shown := onTerminal(t, "n", nil, append(args, "--yes")...); code != cli.ExitOK || strings.Contains(shown, "[y/N]") {
			t.Errorf("%s --yes: exit %d: %q", name, code, shown)
		}
		mustOkara(t, args...)
	}
}

func second(_ int, shown string) string { return shown }
