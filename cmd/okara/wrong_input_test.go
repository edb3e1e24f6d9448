// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/cli"
)

// wrongInputs are values that only the command itself can refuse. Words in capitals: newBadUsage.
const wrongInputs = `
state show REGISTRY/none|state history REGISTRY/none|state pull REGISTRY/infra/state --version 9|state pull REGISTRY/none
state diff TEXT TEXT|state diff REGISTRY/infra/state 1 x|state prune REGISTRY/infra/state --keep 0|state import REGISTRY/infra/x TEXT
state import REGISTRY/infra/x oci://REGISTRY/none|state import REGISTRY/infra/x DIR/none|state decrypt TEXT TEXT|state decrypt EMPTY EMPTY
state rekey REGISTRY/infra/state|state rekey REGISTRY/infra/state --new-key nonsense|state push REGISTRY/infra/state TEXT|state push REGISTRY/infra/state EMPTY
state restore REGISTRY/infra/state 99|state restore REGISTRY/infra/state 0|state replicate REGISTRY/none REGISTRY/none2|state keys REGISTRY/none
state list REGISTRY|state list REGISTRY/a:b|state list http://REGISTRY/a|state unlock REGISTRY/infra/state --id x --yes|state delete REGISTRY/none -w x --yes
compare net/vpc/aws 1.0.0 9.9.9|compare net/vpc 1.0.0 1.1.0|compare net/vpc/aws 1.0.0 x|show net/vpc/aws@>>1|show net/vpc/aws@latest|show a/b/c/d/e
pull net/vpc/aws MODULE|pull net/vpc/aws@9.9.9 DIR/x|verify net/vpc/aws --digest x|verify net/vpc/aws --require nonsense|verify net/vpc/aws --openpgp-key TEXT
verify net/vpc/aws --block nonsense|lock DIR/none|lock MODULE --from ftp://x|mirror a/b/c/d/e|mirror --lockfile TEXT|mirror net/vpc/aws --platform x
keys new --days 0 --dir DIR|keys rotate x --dir KEYS|keys revoke x --dir KEYS|keys import TEXT --dir DIR|keys export x --dir KEYS
admin token new X read:module:** --token-file DIR/t|admin token new ci read --token-file DIR/t|admin token new ci read:x:** --token-file DIR/t
admin token new ci read:module:** --days -1|admin token list --token-file DIR/none|admin token revoke x --token-file TEXT|admin token list
admin gc --storage DIR/none|admin audit --since x|admin audit --until 2026-13-01|admin audit --outcome nonsense|admin prune net/vpc/aws --keep 0
admin scan net/vpc/aws|admin scan net/vpc/aws@1.0.0 --block nonsense|admin scan net/vpc/aws@1.0.0 --scanner nosuch|admin doctor nonsense
depot validate TEXT|depot validate DIR/none|depot import TEXT|depot import DIR/none|depot import --as yaml .|depot approve net/vpc/aws|depot approve net/vpc/aws@9.9.9
depot status TEXT|depot plan TEXT|depot apply DIR/none|bundle load TEXT|bundle verify TEXT|bundle show DIR/none|bundle create DIR/x.tar none/none/aws
bundle create DIR/none/x.tar net/vpc/aws|cli-config http://|cli-config https://[|cli-config ftp://x|cli-config https://x.example.com --token-file DIR/none
auth token REGISTRY|auth emit REGISTRY|auth explain http://x y|sign net/vpc/aws --cosign-key TEXT|sign net/vpc/aws|sign acme/none --sign-key TEXT
deprecate net/vpc/aws|deprecate net/vpc/aws@9.9.9|yank net/none/aws@1.0.0|yank net/vpc/aws@x|publish provider DIR a/b x|publish provider DIR a 1.0.0
publish attachment net/vpc/aws TEXT|publish attachment net/vpc/aws DIR/none|publish package x net/x/aws 1.0.0|publish package REGISTRY/none:1 net/x/aws 1.0.0
publish module MODULE net/x/aws 1|publish module MODULE net/x/aws auto|publish module MODULE net/x/aws 1.0.0 --policy nonsense|publish module MODULE net/vpc/aws 1.0.0+a
publish modules MODULE net/x/aws 1.0.0|publish modules DIR/none net/{name}/aws 1.0.0|publish modules MODULE net/{name}/aws --bump nonsense
workspace list acme|workspace list acme/x --server http://REGISTRY|workspace create acme --server http://REGISTRY|workspace create a/b --tag = --server http://REGISTRY
workspace variable set acme a b --server http://REGISTRY|workspace list acme --server ftp://x|workspace list acme --server http://example.com
instance list|instance show x|instance create X -p bad --server http://REGISTRY|instance template validate DIR/none|instance template validate TEXT
instance template publish TEXT 1.0.0|instance template publish TEXT x|instance ledger REGISTRY/none|instance clock|login http://x/y|list --server http://TLS
serve --config DIR/none|serve --config TEXT|serve --token-file DIR/none --listen 127.0.0.1:0|serve --log-format xml|serve --listen x|serve --demo --config TEXT
list --ca-file DIR/none|list --client-cert TEXT|list --registry x/y/Z|list --registry ftp://x|list --registry x:y|list net/vpc/aws@x|list net/vpc/aws@9.9.9
`

// TestWrongInputs: each wrong input has one line that says what is wrong, in words of the user, and a
// hint. Poor answers are at most five of some hundreds.
//
// Shows: mistakes 53 | 25 of 200 wrong inputs had a poor answer | one line and a hint, at most five without
func TestWrongInputs(t *testing.T) {
	u := newBadUsage(t)
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	var lines []string
	everyCommand(t, func(c *cobra.Command) {
		path, called := strings.CutPrefix(c.CommandPath(), "okara ")
		if !called || c.Hidden || c.DisableFlagParsing || strings.HasPrefix(path, "completion") || strings.HasPrefix(path, "help") {
			return
		}
		lines = append(lines, path+" --no-such-flag")
		if !strings.Contains(c.Use, "...") {
			lines = append(lines, path+" a b c d e f")
		}
		if strings.Contains(c.Use, " ") && !strings.Contains(c.Use, " [") && !strings.Contains(c.Use, " --") {
			lines = append(lines, path)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains([]string{"string", "stringArray", "stringSlice"}, f.Value.Type()) {
				lines = append(lines, path+" --"+f.Name+"=nonsense")
			}
		})
	})
	for line := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(wrongInputs), "\n", "|"), "|") {
		if !strings.Contains(line, "--registry") && !strings.Contains(line, "--server") {
			line += " --registry REGISTRY"
		}
		lines = append(lines, line)
	}
	foreign := regexp.MustCompile(`strconv\.|0x[0-9a-f]{6}|&\{|%!|\bnil\b|goroutine|panic|runtime|json: (cannot|invalid|unknown)|unexpected (end|newline|EOF)|looking for beginning|dial tcp|lookup |\.go:\d|nmarshal|context |syscall|EOF$|asn1|x509: |time: |parse "`)
	var poor []string
	for _, line := range lines {
		o := okara(t, strings.Fields(u.names.Replace(line))...)
		what, hint, hinted := strings.Cut(strings.TrimSpace(o.err), "\nhint: ")
		if o.code < cli.ExitFailure || o.code > cli.ExitPartly || o.out != "" && !strings.Contains(line, "--json") && o.code != cli.ExitPartly {
			t.Errorf("%s: exit %d\n%s%s", line, o.code, o.out, o.err)
		}
		last := what[strings.LastIndex(what, "\n")+1:]
		hinted = hinted && hint != "" || strings.Contains(last, "text:1: ") // of a file it says what to write
		if !hinted || !strings.HasPrefix(last, "okara: ") || foreign.MatchString(what) {
			poor = append(poor, line+"\n\t"+o.err)
		}
	}
	t.Logf("%d wrong inputs, %d poor answers", len(lines), len(poor))
	if len(lines) < 200 || len(poor) > 5 {
		t.Errorf("%d of %d answers are poor:\n%s", len(poor), len(lines), strings.Join(poor, ""))
	}
}

// TestHelpPattern: a command's help begins with a verb, has an example of the command itself, and
// describes each flag in words without a full stop, as that of gh.
func TestHelpPattern(t *testing.T) {
	everyCommand(t, func(c *cobra.Command) {
		if c.Hidden || c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion" || !c.HasParent() {
			return
		}
		begin := []rune(c.Short)
		if !unicode.IsUpper(begin[0]) || strings.HasSuffix(c.Short, ".") || len(begin) > 80 {
			t.Errorf("%s: summary %q", c.CommandPath(), c.Short)
		}
		if !c.HasSubCommands() && !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: no example", c.CommandPath())
		}
		if c.Long != "" && !strings.HasSuffix(strings.TrimSpace(c.Long), ".") && !strings.Contains(c.Long, "\n  ") {
			t.Errorf("%s: the description ends with %q", c.CommandPath(), c.Long[max(0, len(c.Long)-40):])
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name, usage := pflag.UnquoteUsage(f)
			if !f.Hidden && (usage == "" || strings.HasSuffix(usage, ".") || unicode.IsUpper([]rune(usage)[0]) && unicode.IsLower([]rune(usage)[1])) {
				t.Errorf("%s --%s: %q", c.CommandPath(), f.Name, usage)
			}
			if values, enumerated := strings.Split(name, "|"), strings.Contains(name, "|"); enumerated {
				words := strings.Fields(strings.TrimPrefix(c.CommandPath(), "okara "))
				got := okara(t, append(append([]string{"__complete"}, words...), "--"+f.Name, "")...).out
				if !strings.HasPrefix(got, strings.Join(values, "\n")+"\n:") {
					t.Errorf("%s --%s completes %q", c.CommandPath(), f.Name, got)
				}
			}
		})
	})
}

// TestPartlyHint: if the failures are in the list, the hint is about them.
func TestPartlyHint(t *testing.T) {
	u := newBadUsage(t)
	for line, want := range map[string]string{
		"mirror acme/dns --from https://TLS --registry REGISTRY":               "hint: set the CA that signed its certificate with --ca-file",
		"mirror TLS/acme/dns --registry REGISTRY":                              "hint: it speaks https",
		"mirror net/vpc/aws --openpgp-key KEYS/ID.pub.asc --registry REGISTRY": "refused: not verified: modules have no OpenPGP signature",
	} {
		if o := okara(t, strings.Fields(u.names.Replace(line))...); o.code != cli.ExitPartly || !strings.Contains(o.out+o.err, want) {
			t.Errorf("%s: exit %d, want %q\n%s%s", line, o.code, want, o.out, o.err)
		}
	}
}

// TestForgivenUsage accepts what users copy from elsewhere.
func TestForgivenUsage(t *testing.T) {
	u := newBadUsage(t)
	for line, want := range map[string]string{
		"state list oci://REGISTRY/infra/state":                             "default",
		"state list https://REGISTRY/infra/state/":                          "default",
		"list --registry https://REGISTRY/":                                 "net/vpc/aws",
		"show net/vpc/aws@v1.0.0 --registry REGISTRY":                       "version    1.0.0",
		"show net/vpc/aws v1.0.0 --registry REGISTRY":                       "version    1.0.0",
		"pull net/vpc/aws 1.0.0 DIR/pulled --registry REGISTRY":             "",
		"compare net/vpc/aws@1.0.0 net/vpc/aws@1.1.0 --registry REGISTRY":   "between 1.0.0 and 1.1.0",
		"publish module MODULE net/vpc/aws@1.1.0 --registry REGISTRY":       "net/vpc/aws:1.1.0@",
		"state list infra/state --registry REGISTRY":                        "default",
		"state diff infra/state 1 1 --registry REGISTRY":                    "",
		"list net/vpc/aws 1.0.0 --registry REGISTRY":                        "1.0.0",
		"publish module MODULE net/vpc/aws v1.1.0 --registry REGISTRY":      "net/vpc/aws:1.1.0@",
		"depot plan EMPTY --registry REGISTRY":                              "",
		"publish module MODULE net/vpc/aws 1.1.0 --registry oci://REGISTRY": "net/vpc/aws:1.1.0@",
	} {
		if o := okara(t, strings.Fields(u.names.Replace(line))...); o.code != cli.ExitOK || !strings.Contains(o.out, want) {
			t.Errorf("%s: exit %d, want %q\n%s%s", line, o.code, want, o.out, o.err)
		}
	}
}

// TestFailureJSON: with --json there is one document on stdout for every kind of failure.
//
// Shows: mistakes 30
func TestFailureJSON(t *testing.T) {
	u := newBadUsage(t)
	other := newModuleDir(t)
	mustWrite(t, filepath.Join(other, "more.tf"), []byte("locals {}\n"))
	for _, row := range []struct {
		line string
		want cli.Failure
	}{
		{"show net/vpc/aws@9.9.9 --registry REGISTRY --json", cli.Failure{Code: cli.ExitNotFound, Reason: "has no version 9.9.9"}},
		{"list --bogus --json", cli.Failure{Code: cli.ExitUsage, Reason: "unknown flag", Hint: "usage: okara list"}},
		{"state lst --json", cli.Failure{Code: cli.ExitUsage, Reason: "unknown command", Hint: "okara state list"}},
		{"serve TEXT --json", cli.Failure{Code: cli.ExitUsage, Reason: "takes no arguments", Hint: "--config"}},
		{"list --registry LOGIN --json", cli.Failure{Code: cli.ExitDenied, Reason: "authentication required", Hint: "okara login"}},
		{"publish module " + other + " net/vpc/aws 1.0.0 --registry REGISTRY --json", cli.Failure{Code: cli.ExitConflict, Reason: "already published with other content", Hint: "such as 1.0.1", Next: "1.0.1"}},
		{"mirror acme/dns --from DIR --registry REGISTRY --json", cli.Failure{}}, // the list is the document
	} {
		o := okara(t, strings.Fields(u.names.Replace(row.line))...)
		if row.want.Code == 0 {
			var list []mirrorResult
			if err := json.Unmarshal([]byte(o.out), &list); err != nil || len(list) != 1 || o.code != cli.ExitPartly {
				t.Errorf("%s: exit %d, %v\n%s", row.line, o.code, err, o.out)
			}
			continue
		}
		var doc struct{ Error cli.Failure }
		err := json.Unmarshal([]byte(o.out), &doc)
		got := doc.Error
		if err != nil || o.code != row.want.Code || got.Code != o.code || got.Next != row.want.Next ||
			!strings.Contains(got.Reason, row.want.Reason) || !strings.Contains(got.Hint, row.want.Hint) {
			t.Errorf("%s: exit %d, %v\n%s", row.line, o.code, err, o.out)
		}
		if !strings.HasPrefix(o.err, "okara: ") {
			t.Errorf("%s: stderr %q", row.line, o.err)
		}
	}
}

// TestRefusedCredential: the message says which credential a registry refused and where it
// is stored, but not its secret.
//
// Shows: mistakes 30
func TestRefusedCredential(t *testing.T) {
	login := newAnswer(t, http.StatusUnauthorized, `{"errors":[{"code":"UNAUTHORIZED","message":"no"}]}`)
	file := filepath.Join(t.TempDir(), "config.json")
	mustWrite(t, file, []byte(`{"auths":{"`+login+`":{"username":"octocat","password":"hunter2"}}}`))
	tofurc := filepath.Join(t.TempDir(), "tofurc")
	mustWrite(t, tofurc, []byte("credentials \""+login+"\" {\n  token = \"hunter2\"\n}\n"))
	again := "; log in with `okara login " + login + "`"
	for name, env := range map[string]map[string]string{
		"the password of octocat from " + file + " was refused" + again: {"DOCKER_CONFIG": filepath.Dir(file)},
		"the password of me from variables OKARA_USERNAME and OKARA_PASSWORD was refused; explicit credentials are never replaced by others": {
			"OKARA_USERNAME": "me", "OKARA_PASSWORD": "hunter2", "DOCKER_CONFIG": filepath.Dir(file)},
		"the registry token from " + tofurc + ", and the password of octocat from " + file + " were refused" + again: {"DOCKER_CONFIG": filepath.Dir(file), "TF_CLI_CONFIG_FILE": tofurc},
	} {
		var out, errOut bytes.Buffer
		code := runCommand(t.Context(), []string{"list", "--registry", login}, strings.NewReader(""), &out, &errOut, func(name string) string { return env[name] })
		o := outcome{code: code, out: out.String(), err: errOut.String()}
		if o.code != cli.ExitDenied || !strings.Contains(o.err, name) || strings.Contains(o.err, "hunter2") {
			t.Errorf("exit %d\n%s", o.code, o.err)
		}
	}
}
