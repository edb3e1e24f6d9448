// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

const (
	readToken  = "oks_reader_0123456789abcdefghij"
	strayToken = "oks_stray_0123456789abcdefghijk"
	aMirrored  = "registry.example.com/acme/dns"
)

// readServer has versions signed, reported, deprecated, withdrawn.
type readServer struct {
	*person
	server, registry string // URL; HOST/PREFIX
	cosign, openpgp  string // files of public keys
}

func newReadServer(t *testing.T) readServer {
	t.Helper()
	private, public := newKeyFiles(t, "--ed25519")
	again, _ := newKeyFiles(t, "--ed25519")
	cosign, cosignPublic := newKeyFiles(t, "--cosign")
	r := readServer{person: newPerson(t), registry: ocitest.New(t, ocitest.Quirks{}) + "/platform", cosign: cosignPublic, openpgp: public}
	module := filepath.Dir(r.file("vpc/main.tf", "variable \"cidr\" {\n  type = string\n}\n"))
	r.file("vpc/README.md", "# A network\n")
	dist, packed := newRelease(t, 2, 1000), t.TempDir()
	must.Succeed(t, os.MkdirAll(filepath.Join(packed, filepath.Dir(aMirrored)), 0o700))
	must.Succeed(t, os.Symlink(dist, filepath.Join(packed, aMirrored)))
	for _, args := range [][]string{
		{"publish", "module", module, "net/vpc/aws", "1.0.0"}, {"publish", "module", module, "net/vpc/aws", "1.1.0"},
		{"publish", "module", module, "net/vpc/aws", "2.0.0"}, {"publish", "module", module, "net/vpc/aws", "3.0.0-rc.1"},
		{"publish", "module", newModuleDir(t), "net/bare/aws", "1.0.0"},
		{"sign", "net/vpc/aws@1.0.0", "--cosign-key", cosign}, {"sign", "net/vpc/aws@1.1.0", "--cosign-key", cosign},
		{"publish", "attachment", "net/vpc/aws@1.1.0", r.file("sbom.json", `{"spdxVersion":"SPDX-2.3"}`)},
		{"deprecate", "net/vpc/aws@1.0.0", "-m", "too old", "--replacement", "1.1.0"}, {"yank", "net/vpc/aws@2.0.0", "-m", "broken"},
		{"publish", "provider", dist, "acme/dns", "1.0.0", "--sign-key", private},
		{"publish", "provider", newRelease(t, 2, 1000), "again/dns", "1.0.0", "--sign-key", private},
		{"sign", "again/dns@1.0.0", "--sign-key", again, "--replace"},
		{"mirror", aMirrored, "--from", packed, "--allow-unsigned"},
	} {
		mustOkara(t, append(args, "--registry", r.registry)...)
	}
	tokens := r.file("tokens", serveToken+" publish:*:**\n"+readToken+" read:module:net/** read:provider:** read:mirror:**\n"+strayToken+" read:module:data/**\n")
	config := r.file("okara.hcl", "require \"module\" {\n  checks = [\"cosign\"]\n  cosign_keys = [\""+cosignPublic+"\"]\n}\n")
	r.server, _, _ = newServer(t, "--storage", t.TempDir(), "--registry", r.registry, "--token-file", tokens, "--config", config)
	return r
}

// as runs okara with a token for the server, or without one.
func (r readServer) as(t *testing.T, token string, args ...string) (code int, out, errOut string) {
	t.Helper()
	r.env = map[string]string{"OKARA_TOKEN": token}
	return r.run(t, args...)
}

// TestReadServer shows, verifies and pulls through a front-end what a token may read: all
// output, files and exit codes are the same as with the registry behind it.
//
// Shows: jobs 4a | the same user shows, verifies and pulls through it, without access to the
// registry; a server that changes a byte, or passes one module off as another ([publish through the
// server](publish/publish-server.md#read-through-the-server))
func TestReadServer(t *testing.T) {
	r := newReadServer(t)
	for _, args := range [][]string{
		{"show", "net/vpc/aws"}, {"show", "net/vpc/aws@1.0.0", "--json"}, {"show", "net/vpc/aws@1.1.0", "--json"}, {"show", "net/vpc/aws@< 1.1.0"}, {"show", "net/vpc/aws", "--readme"},
		{"show", "net/vpc/aws", "--json", "--require", "cosign", "--cosign-key", r.cosign}, {"show", "acme/dns", "--json"}, {"show", "again/dns", "--json"}, {"show", aMirrored, "--json"},
		{"verify", "net/vpc/aws", "--json"}, {"verify", "net/vpc/aws@1.0.0", "--deep", "--cosign-key", r.cosign, "--require", "cosign"},
		{"verify", "net/vpc/aws", "--require", "scan"}, {"verify", "acme/dns", "--deep"}, {"verify", "acme/dns", "--json", "--openpgp-key", r.openpgp, "--require", "openpgp"},
		{"verify", "again/dns", "--openpgp-key", r.openpgp}, {"verify", aMirrored, "--deep"},
	} {
		wantCode, want, wantErr := r.as(t, "", append(args, "--registry", r.registry)...)
		for _, token := range []string{readToken, serveToken} {
			code, got, gotErr := r.as(t, token, append(args, "--server", r.server)...)
			if diff := cmp.Diff(got, want) + cmp.Diff(gotErr, wantErr); code != wantCode || diff != "" {
				t.Errorf("%v: exit %d, want %d, server - registry +:\n%s", args, code, wantCode, diff)
			}
		}
	}
	for _, args := range [][]string{{"list", "net/vpc/aws@~> 1.0.0"}, {"list", "net/vpc/aws@~> 1.0.0", "--json"}} {
		_, want, _ := r.as(t, "", append(args, "--registry", r.registry)...)
		code, got, errOut := r.as(t, serveToken, append(args, "--server", r.server)...)
		if diff := cmp.Diff(got, want); code != cli.ExitOK || diff != "" {
			t.Errorf("%v: exit %d %s, server - registry +:\n%s", args, code, errOut, diff)
		}
	}
	if got := get(t, r.server+"/v1/modules/net/vpc/aws", readToken); !strings.Contains(got, `"downloads":0`) {
		t.Errorf("what was verified counts as a download: %s", got)
	}
	for _, args := range [][]string{{"net/vpc/aws"}, {"net/vpc/aws@1.0.0"}, {"acme/dns"}, {"again/dns", "--platform", "linux_amd64"}, {aMirrored}, {"acme/dns", "--openpgp-key", r.openpgp}} {
		direct, through := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "out")
		pull := func(dir string, flags ...string) []string {
			return append(append([]string{"pull", args[0], dir}, args[1:]...), flags...)
		}
		if code, _, errOut := r.as(t, "", pull(direct, "--registry", r.registry)...); code != cli.ExitOK {
			t.Fatal(errOut)
		}
		if code, _, errOut := r.as(t, readToken, pull(through, "--server", r.server)...); code != cli.ExitOK {
			t.Errorf("pull %v: exit %d\n%s", args, code, errOut)
			continue
		}
		if diff := cmp.Diff(filesIn(t, through), filesIn(t, direct)); diff != "" {
			t.Errorf("pull %v: server - registry +:\n%s", args, diff)
		}
	}
}

// TestFooterCommands runs what the footers of the pages name.
func TestFooterCommands(t *testing.T) {
	r := newReadServer(t)
	t.Chdir(t.TempDir()) // one of them fetches files
	for _, page := range []string{
		"", "search?q=vpc", "modules/net", "modules/net/vpc/aws", "modules/net/vpc/aws/1.1.0/security", "modules/net/vpc/aws/1.1.0/files", "modules/net/vpc/aws/versions",
		"modules/net/vpc/aws/compare?from=1.0.0&to=1.1.0", "providers/acme/dns", "mirror/" + aMirrored,
	} {
		_, footer, ok := strings.Cut(get(t, r.server+"/ui/"+page, readToken), "on the command line: <code>okara ")
		words, _, _ := strings.Cut(footer, "</code>")
		if code, _, errOut := r.as(t, readToken, append(strings.Fields(words), "--server", r.server)...); !ok || code != cli.ExitOK {
			t.Errorf("%s: okara %s: exit %d\n%s", page, words, code, errOut)
		}
	}
}

// TestErrorsNameTheServer that the user named.
func TestErrorsNameTheServer(t *testing.T) {
	r := newReadServer(t)
	const absent = "net/vpc/aws@9.0.0"
	if code, _, errOut := r.as(t, readToken, "verify", absent, "--server", r.server); code != cli.ExitNotFound || !strings.Contains(errOut, r.server) || strings.Contains(errOut, r.registry) {
		t.Errorf("verify %s: exit %d\n%s", absent, code, errOut)
	}
	own, _, _ := newServer(t, "--storage", t.TempDir(), "--token-file", r.file("own", serveToken+" write:state:**\n"))
	got, _ := send(t, http.MethodPost, own+"/state/acme/net?ID=mine", serveToken, `{"version":4,"serial":1,"lineage":"a"}`)
	if !strings.Contains(got, "in "+strings.TrimPrefix(own, "http://")+"/state/acme: lock mine is not held") {
		t.Errorf("a write without a lock: %s", got)
	}
}

// TestReadServerCompares: one report by server and registry.
func TestReadServerCompares(t *testing.T) {
	r := newReadServer(t)
	root := filepath.Dir(filepath.Dir(r.file("modules/vpc/main.tf", "output \"id\" {\n  value = 1\n}\n")))
	args := []string{"publish", "modules", root, "net/{name}/aws", "--bump", "minor", "--dry-run"}
	for _, form := range []string{"--markdown", "--json"} {
		_, want, _ := r.as(t, "", append(args, form, "--registry", r.registry)...)
		code, got, errOut := r.as(t, serveToken, append(args, form, "--server", r.server)...)
		if diff := cmp.Diff(got, want); code != cli.ExitOK || diff != "" || !strings.Contains(got, "cidr") {
			t.Errorf("%s: exit %d %s\n%s\nserver - registry +:\n%s", form, code, errOut, got, diff)
		}
	}
}

// filesIn returns the contents of the files below a folder.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		all[strings.TrimPrefix(name, dir)] = string(b)
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatal("no files", err)
	}
	return all
}

// TestReadServerRights: without the right to read nothing is revealed, and withheld versions
// are only served to callers that may publish.
//
// Shows: jobs 4a
func TestReadServerRights(t *testing.T) {
	r := newReadServer(t)
	for _, tt := range []struct {
		name, token string
		args        []string
		code        int
		out, errOut string
	}{
		{"no token", "", []string{"show", "net/vpc/aws@1.0.0"}, cli.ExitDenied, "^$", "401 Unauthorized.*\nhint: give a token"},
		{"elsewhere", strayToken, []string{"show", "net/vpc/aws@1.0.0"}, cli.ExitDenied, "^$", "403 Forbidden.*\nhint: the token is valid"},
		{"elsewhere, any version", strayToken, []string{"verify", "net/vpc/aws"}, cli.ExitDenied, "^$", "403 Forbidden"},
		{"of what is not there", strayToken, []string{"pull", "net/none/aws@1.0.0", "out"}, cli.ExitDenied, "^$", "403 Forbidden"},
		{"no such version", readToken, []string{"show", "net/vpc/aws@9.0.0"}, cli.ExitNotFound, "^$", "net/vpc/aws 9.0.0: not found"},
		{"no such version, publisher", serveToken, []string{"show", "net/vpc/aws@9.0.0"}, cli.ExitNotFound, "^$", "platform/modules/net/vpc/aws has no version 9.0.0, the newest is 3.0.0-rc.1"},
		{"none allowed", readToken, []string{"show", "net/vpc/aws@~> 9.0"}, cli.ExitNotFound, "^$", "net/vpc/aws has no such version"},
		{"withdrawn", readToken, []string{"show", "net/vpc/aws@2.0.0"}, cli.ExitNotFound, "^$", "version 2.0.0 was withdrawn: broken"},
		{"withdrawn, publisher", serveToken, []string{"show", "net/vpc/aws@2.0.0"}, cli.ExitOK, "status +yanked: broken", "^$"},
		{"withdrawn, publisher verifies", serveToken, []string{"verify", "net/vpc/aws@2.0.0"}, cli.ExitFailure, "failed +status +yanked broken", "not verified"},
		{"held back", readToken, []string{"pull", "net/bare/aws@1.0.0", "out"}, cli.ExitNotFound, "^$", "does not meet the policy of this server"},
		{"held back, publisher", serveToken, []string{"show", "net/bare/aws@1.0.0"}, cli.ExitOK, "version +1.0.0", "^$"},
		{"lists what it may read", readToken, []string{"list"}, cli.ExitOK, "module +net/vpc/aws\n.*provider +acme/dns", "^$"},
		{"lists what it may read, elsewhere", strayToken, []string{"list"}, cli.ExitOK, "^$", "^no modules or providers found"},
		{"lists as JSON", readToken, []string{"list", "--json"}, cli.ExitOK, `"address": "net/vpc/aws"`, "^$"},
		{"lists without a token", "", []string{"list"}, cli.ExitDenied, "^$", "401 Unauthorized.*\nhint: give a token"},
		{"lists elsewhere", strayToken, []string{"list", "net/vpc/aws"}, cli.ExitDenied, "^$", "403 Forbidden.*\nhint: the token is valid"},
		{"lists no such module", readToken, []string{"list", "net/none/aws"}, cli.ExitNotFound, "^$", "not found.*\nhint: `okara list --server URL` shows"},
		{"lists no such version", readToken, []string{"list", "net/vpc/aws@>= 9.0.0"}, cli.ExitNotFound, "^$", "net/vpc/aws has no version that matches >= 9.0.0"},
		{"lists what has a word", readToken, []string{"list", "vpc"}, cli.ExitOK, "^module +net/vpc/aws", "^$"},
		{"exclude each other", readToken, []string{"show", "net/vpc/aws", "--registry", r.registry}, cli.ExitUsage, "^$", "--server and --registry"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			code, out, errOut := r.as(t, tt.token, append(tt.args, "--server", r.server)...)
			if code != tt.code || !matches(t, tt.out, out) || !matches(t, tt.errOut, errOut) {
				t.Errorf("exit code %d, want %d\n%s\n%s", code, tt.code, out, errOut)
			}
			if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
				t.Errorf("%v left behind, %v", left, err)
			}
		})
	}
}

// TestReadBuiltIn: a reader reads without the catalog.
func TestReadBuiltIn(t *testing.T) {
	t.Parallel()
	c, dir := newPerson(t), newModuleDir(t)
	server, _, _ := newServer(t, "--storage", t.TempDir(), "--token-file", c.file("tokens", serveToken+" publish:*:**\n"+readToken+" read:module:net/**\n"))
	for _, tt := range []struct {
		token, args string
		code        int
		out         string
	}{
		{serveToken, "publish module " + dir + " net/vpc/aws 1.0.0", cli.ExitOK, "net/vpc/aws:1.0.0@"},
		{serveToken, "publish module " + dir + " data/lake/aws 1.0.0", cli.ExitOK, "data/lake/aws:1.0.0@"},
		{serveToken, "deprecate net/vpc/aws@1.0.0 -m old", cli.ExitOK, "deprecate"},
		{serveToken, "list", cli.ExitOK, "^module +data/lake/aws\nmodule +net/vpc/aws$"},
		{readToken, "list", cli.ExitOK, "^module +net/vpc/aws$"},
		{readToken, "list net/vpc/aws", cli.ExitOK, "^1.0.0 +deprecated: old$"},
		{readToken, "show net/vpc/aws", cli.ExitOK, "^address +net/vpc/aws\n"},
		{readToken, "list data/lake/aws", cli.ExitDenied, "^$"},
		{readToken, "show data/lake/aws", cli.ExitDenied, "^$"},
		{"oks_ci_wrongwrongwrongwrong", "list", cli.ExitDenied, "^$"},
	} {
		c.env = map[string]string{"OKARA_USERNAME": "token", "OKARA_PASSWORD": tt.token}
		code, out, errOut := c.run(t, append(strings.Fields(tt.args), "--registry", strings.TrimPrefix(server, "http://"))...)
		if code != tt.code || !matches(t, tt.out, out) {
			t.Errorf("%s: exit %d, want %d\n%s%s", tt.args, code, tt.code, out, errOut)
		}
	}
}
