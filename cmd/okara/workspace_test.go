// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
)

const teamToken = "oks_team_0123456789abcdefghij"

// TestWorkspaceCommands: output, exit codes, completions.
func TestWorkspaceCommands(t *testing.T) {
	tokens := newFile(t, "tokens", serveToken+" write:state:** run:state:**\n"+teamToken+" write:state:acme/dev-*\n")
	url, _, _ := newServer(t, "--storage", t.TempDir(), "--token-file", tokens)
	for _, made := range [][3]string{
		{http.MethodPost, "full", `{"version":4,"serial":1,"lineage":"a","resources":[{"mode":"managed","type":"x","name":"y","instances":[{}]}]}`},
		{"LOCK", "held", `{"ID":"a","Who":"anna"}`},
	} {
		if text, code := send(t, made[0], url+"/state/acme/"+made[1], serveToken, made[2]); code != http.StatusOK {
			t.Fatalf("%s: %d %s", made[0], code, text)
		}
	}
	for _, s := range []struct {
		name, token string
		args        []string
		code        int
		out, errOut string
	}{
		{"make one", serveToken, []string{"create", "acme/net-eu", "--tag", "network", "--tag", "env=prod", "--project", "retail", "--description", "the net"}, 0, "^created workspace acme/net-eu\n$", ""},
		{"again, with other tags", serveToken, []string{"create", "acme/net-eu", "--tag", "other"}, cli.ExitConflict, "^$", "workspace acme/net-eu: already exists"},
		{"as JSON", teamToken, []string{"create", "acme/dev-1", "--json"}, 0, `(?s)"organization": "acme",\s+"name": "dev-1"`, ""},
		{"list", serveToken, []string{"list", "acme"}, 0, `(?s)^WORKSPACE +TAGS +PROJECT +LOCKED +CREATED\n.*\nfull +- +- +no .*\nnet-eu +env=prod,network +retail +no +\d{4}-`, ""},
		{"list by tag", serveToken, []string{"list", "acme", "--tag", "env"}, 0, `(?s)^WORKSPACE[^\n]*\nnet-eu [^\n]*\n$`, ""},
		{"list by a tag's value", serveToken, []string{"list", "acme", "--tag", "env=prod", "--tag", "network"}, 0, `(?s)^WORKSPACE[^\n]*\nnet-eu [^\n]*\n$`, ""},
		{"list by another value", serveToken, []string{"list", "acme", "--tag", "env=test"}, 0, `^$`, "no workspaces in acme"},
		{"list by project", serveToken, []string{"list", "acme", "--project", "retail", "--json"}, 0, `^\[\s+\{\s+"organization": "acme",\s+"name": "net-eu"`, ""},
		{"list nothing", serveToken, []string{"list", "empty", "--json"}, 0, `^\[\]\n$`, ""},
		{"list what may be read", teamToken, []string{"list", "acme"}, 0, `(?s)^WORKSPACE[^\n]*\ndev-1 [^\n]*\n$`, ""},
		{"list without a right", teamToken, []string{"list", "other"}, cli.ExitDenied, "^$", "may not read state other"},
		{"make without a right", teamToken, []string{"create", "acme/prod"}, cli.ExitDenied, "^$", "may not write state acme/prod"},
		{"delete without a right", teamToken, []string{"delete", "acme/net-eu", "--yes"}, cli.ExitDenied, "^$", "may not write state acme/net-eu"},
		{"a wrong token", "oks_ci_000000000000000000000", []string{"list", "acme"}, cli.ExitDenied, "^$", "hint: .*OKARA_TOKEN"},
		{"no name", serveToken, []string{"create", "acme"}, cli.ExitUsage, "^$", "is not ORGANIZATION/WORKSPACE"},
		{"no name that can be given", serveToken, []string{"create", "acme/a b"}, cli.ExitUsage, "^$", "(?i)name"},
		{"a tag twice", serveToken, []string{"create", "acme/x", "--tag", "a", "--tag", "a=1"}, cli.ExitUsage, "^$", "each KEY once"},
		{"a tag without a name", serveToken, []string{"create", "acme/x", "--tag", "="}, cli.ExitUsage, "^$", "(?s)must be KEY or KEY=VALUE.*hint: use --tag network"},
		{"no organization", serveToken, []string{"list", "acme/x"}, cli.ExitUsage, "^$", "name of an organization"},
		{"one that no state can have", serveToken, []string{"list", "Acme"}, cli.ExitNotFound, "^$", "not a valid name"},
		{"set a variable", serveToken, []string{"variable", "set", "acme/net-eu", "region", "eu-1", "--description", "where"}, 0, "^set variable region of workspace acme/net-eu\n$", ""},
		{"change it", serveToken, []string{"variable", "set", "acme/net-eu", "region", "eu-2"}, 0, "^set variable region", ""},
		{"from standard input", serveToken, []string{"variable", "set", "acme/net-eu", "TOKEN", "--category", "env"}, 0, "^set variable TOKEN", ""},
		{"no name of a variable", serveToken, []string{"variable", "set", "acme/net-eu", "a b", "x"}, cli.ExitUsage, "^$", "must be the name of a variable"},
		{"a secret without keys", serveToken, []string{"variable", "set", "acme/net-eu", "password", "0123456789", "--sensitive"}, cli.ExitUsage, "^$", "hint: configure a state key"},
		{"variables", serveToken, []string{"variable", "list", "acme/net-eu"}, 0, `(?s)^KEY +VALUE +CATEGORY +DESCRIPTION\n.*TOKEN +- +env +-\n.*region +eu-2 +terraform +where`, ""},
		{"delete a variable", serveToken, []string{"variable", "delete", "acme/net-eu", "TOKEN", "--category", "env", "--json"}, 0, `"deleted": true`, ""},
		{"delete it again", serveToken, []string{"variable", "delete", "acme/net-eu", "TOKEN", "--category", "env"}, cli.ExitNotFound, "^$", `has no env variable "TOKEN"`},
		{"a variable without a right", teamToken, []string{"variable", "set", "acme/net-eu", "region", "x"}, cli.ExitDenied, "^$", "may not"},
		{"delete unasked", serveToken, []string{"delete", "acme/net-eu"}, cli.ExitUsage, "^$", "confirm with --yes"},
		{"delete", serveToken, []string{"delete", "acme/net-eu", "--yes"}, 0, "^deleted workspace acme/net-eu\n$", ""},
		{"delete again", serveToken, []string{"delete", "acme/net-eu", "--yes"}, 0, "^deleted workspace acme/net-eu\n$", ""}, // the first answer may have been lost
		{"delete what is not there", serveToken, []string{"delete", "acme/none", "--yes"}, cli.ExitNotFound, "^$", "hint: .okara workspace list"},
		{"delete with resources", serveToken, []string{"delete", "acme/full", "--yes"}, cli.ExitConflict, "^$", "hint: .*--force"},
		{"delete what is locked", serveToken, []string{"delete", "acme/held", "--yes", "--force"}, cli.ExitNotFound, "^$", ""}, // a lock alone does not make a workspace
		{"delete by force", serveToken, []string{"delete", "acme/full", "--yes", "--force", "--json"}, 0, `"deleted": true`, ""},
	} {
		t.Run(s.name, func(t *testing.T) {
			c := newPerson(t)
			c.env = map[string]string{"OKARA_SERVER": url, "OKARA_TOKEN": s.token}
			code, out, errOut := c.run(t, append([]string{"workspace"}, s.args...)...)
			if code != s.code || !regexp.MustCompile(s.out).MatchString(out) || !regexp.MustCompile(s.errOut).MatchString(errOut) {
				t.Errorf("exit code %d, want %d\n%s%s", code, s.code, out, errOut)
			}
		})
	}
	c := newPerson(t)
	if code, _, errOut := c.run(t, "workspace", "list", "acme"); code != cli.ExitUsage || !strings.Contains(errOut, "hint: set OKARA_SERVER") {
		t.Errorf("without a server: %d %s", code, errOut)
	}
	c.env = map[string]string{"OKARA_SERVER": url, "OKARA_TOKEN": serveToken}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"list", "a"}, "acme\n:4\n"},
		{[]string{"delete", "a"}, "acme/\n:6\n"},
		{[]string{"delete", "acme/dev"}, "acme/dev-1\n:4\n"},
		{[]string{"delete", "acme/dev-1", ""}, ":4\n"},
	} {
		if _, out, _ := c.run(t, append([]string{"__complete", "workspace"}, tt.args...)...); out != tt.want {
			t.Errorf("%q completes %q, want %q", tt.args, out, tt.want)
		}
	}
}
