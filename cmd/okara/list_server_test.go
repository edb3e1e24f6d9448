// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/cli"
)

// TestListServer lists through a front-end what the token may read, in the same form as from
// the registry behind it.
func TestListServer(t *testing.T) {
	const narrow = "oks_narrow_0123456789abcdefghij"
	c, storage := newClientHome(t), t.TempDir()
	tokens := c.file(t, "tokens", serveToken+" publish:module:**\n"+narrow+" read:module:net/**\n")
	server, _, _ := newServer(t, "--storage", storage, "--tls-self-signed", "--token-file", tokens)
	ca := filepath.Join(storage, "tls", "ca.pem")
	front := []string{"--server", server, "--ca-file", ca}
	direct := []string{"--registry", strings.TrimPrefix(server, "https://"), "--ca-file", ca}
	run := func(env map[string]string, args ...string) (int, string, string) {
		c.env = env
		return c.run(t, args...)
	}
	all := map[string]string{"OKARA_TOKEN": serveToken, "OKARA_USERNAME": "token", "OKARA_PASSWORD": serveToken}
	dir := filepath.Dir(c.file(t, "vpc/main.tf", "# x\n"))
	for _, args := range [][]string{
		{"publish", "module", dir, "net/vpc/aws", "1.0.0"}, {"publish", "module", dir, "net/vpc/aws", "1.1.0"}, {"publish", "module", dir, "data/lake/aws", "1.0.0"},
		{"deprecate", "net/vpc/aws@1.0.0", "-m", "too old", "--replacement", "1.1.0"}, {"yank", "net/vpc/aws@1.1.0", "-m", "broken"},
	} {
		if code, _, errOut := run(all, append(args, front...)...); code != cli.ExitOK {
			t.Fatalf("%v: %d\n%s", args, code, errOut)
		}
	}
	for _, args := range [][]string{{"list", "net/vpc/aws"}, {"list", "net/vpc/aws", "--json"}, {"list", "net/vpc/aws@~> 1.0.0"}} {
		_, want, _ := run(all, append(args, direct...)...)
		code, got, errOut := run(all, append(args, front...)...)
		if diff := cmp.Diff(got, want); code != cli.ExitOK || diff != "" {
			t.Errorf("%v: %d %s, server - registry +:\n%s", args, code, errOut, diff)
		}
	}
	reader := map[string]string{"OKARA_USERNAME": "token", "OKARA_PASSWORD": narrow}
	for _, tt := range [][]string{{"^module +net/vpc/aws$", "list"}, {"deprecated", "list", "net/vpc/aws"}, {"^address +net/vpc/aws\n", "show", "net/vpc/aws"}} {
		if code, out, errOut := run(reader, append(tt[1:], direct...)...); code != cli.ExitOK || !matches(t, tt[0], out) {
			t.Errorf("%v by a reader of the built-in registry: %d\n%s%s", tt[1:], code, out, errOut)
		}
	}
	const everything = "module +data/lake/aws\nmodule +net/vpc/aws"
	tests := []struct {
		name        string
		env         map[string]string
		args        []string
		code        int
		out, errOut string
	}{
		{"everything", all, nil, cli.ExitOK, "^" + everything + "$", "^$"},
		{"what a token may read", map[string]string{"OKARA_TOKEN": narrow}, nil, cli.ExitOK, "^module +net/vpc/aws$", "^$"},
		{"as JSON", map[string]string{"OKARA_TOKEN": narrow}, []string{"--json"}, cli.ExitOK, `"address": "net/vpc/aws"`, "^$"},
		{"no token", nil, nil, cli.ExitDenied, "^$", "401 Unauthorized.*\nhint: give a token"},
		{"a wrong token", map[string]string{"OKARA_TOKEN": "oks_ci_wrongwrongwrongwrong"}, nil, cli.ExitDenied, "^$", "401 Unauthorized.*\nhint: give a token"},
		{"elsewhere", map[string]string{"OKARA_TOKEN": narrow}, []string{"data/lake/aws"}, cli.ExitDenied, "^$", "403 Forbidden.*\nhint: the token is valid"},
		{"no such module", all, []string{"net/none/aws"}, cli.ExitNotFound, "^$", "not found.*\nhint: okara list --server URL without"},
		{"no such version", all, []string{"net/vpc/aws@>= 9.0.0"}, cli.ExitNotFound, "^$", "net/vpc/aws has no version that >= 9.0.0 allows"},
		{"no address", all, []string{"vpc"}, cli.ExitUsage, "^$", "vpc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errOut := run(tt.env, append(append([]string{"list"}, tt.args...), front...)...)
			if code != tt.code || !matches(t, tt.out, out) || !matches(t, tt.errOut, errOut) {
				t.Errorf("exit code %d, want %d\n%s\n%s", code, tt.code, out, errOut)
			}
		})
	}
}
