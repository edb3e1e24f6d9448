// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestBadUsage runs typical mistyped command lines. Each row has a command line, its exit
// code, and parts of the message and the hint; nothing is written. Words in capitals stand
// for hosts and files, see newBadUsage.
//
// Shows: mistakes 30 | usage errors did not show what to type | each has a reason, a hint and an
// exit code, as JSON too
func TestBadUsage(t *testing.T) {
	const module = "publish module MODULE net/vpc/aws 1.0.0 "
	u := newBadUsage(t)
	for _, row := range []struct {
		line         string
		code         int
		reason, hint string
	}{
		// Unknown commands and flags.
		{"publsh module", cli.ExitUsage, `unknown command "publsh" for "okara"`, "did you mean `okara publish`?"},
		{"push MODULE net/vpc/aws 1.0.0", cli.ExitUsage, `unknown command "push"`, "`okara publish`"},
		{"frobnicate", cli.ExitUsage, `unknown command "frobnicate"`, "valid commands are admin, auth, "},
		{"modules", cli.ExitUsage, `unknown command "modules"`, "did you mean `okara publish modules`?"},
		{"publish MODULE net/vpc/aws 1.0.0", cli.ExitUsage, "unknown command", "valid commands are attachment, module, modules, package, provider"},
		{"publish modul MODULE net/vpc/aws 1.0.0", cli.ExitUsage, `unknown command "modul"`, "`okara publish module`"},
		{"state histroy REGISTRY/infra/state", cli.ExitUsage, `unknown command "histroy" for "okara state"`, "did you mean `okara state history`?"},
		{"doctor", cli.ExitUsage, `unknown command "doctor" for "okara"`, "did you mean `okara admin doctor`?"},
		{"doctor --instances --registry REGISTRY", cli.ExitUsage, `unknown command "doctor"`, "did you mean `okara admin doctor`?"},
		{"token new ci", cli.ExitUsage, `unknown command "token"`, "did you mean `okara admin token` or `okara auth token`?"},
		{"approve net/vpc/aws@1.0.0", cli.ExitUsage, `unknown command "approve"`, "did you mean `okara depot approve` or `okara instance approve`?"},
		{"attach net/vpc/aws@1.0.0 sbom.json", cli.ExitUsage, `unknown command "attach"`, "did you mean `okara publish attachment`?"},
		{"convert x net/vpc/aws 1.0.0", cli.ExitUsage, `unknown command "convert"`, "did you mean `okara publish package`?"},
		{"admin approve x", cli.ExitUsage, `unknown command "approve" for "okara admin"`, "did you mean `okara depot approve` or `okara instance approve`?"},
		{"--bogus", cli.ExitUsage, "unknown flag: --bogus", "`okara --help`"},
		{"list --regsitry REGISTRY", cli.ExitUsage, "unknown flag: --regsitry", "did you mean --registry?"},
		{"state list REGISTRY/infra/state --plain-htp", cli.ExitUsage, "unknown flag: --plain-htp", "did you mean --plain-http?"},
		{"list --registry", cli.ExitUsage, "flag needs an argument: --registry", "usage: okara list [ADDRESS]"},
		{"list --json=maybe", cli.ExitUsage, `invalid argument "maybe" for --json: must be true or false`, "usage: okara list"},
		{"serve --cache-blobs many", cli.ExitUsage, `"many" is not a size such as 20GiB`, "usage: okara serve"},

		// Too few arguments, too many, and in the wrong order.
		{"publish module", cli.ExitUsage, "missing: DIR, NAMESPACE/NAME/SYSTEM, VERSION", "usage: okara publish module DIR NAMESPACE/NAME/SYSTEM VERSION; see --help for examples"},
		{"publish module MODULE net/vpc/aws", cli.ExitUsage, "missing: VERSION", "--bump patch, minor or major"},
		{"publish module MODULE net/vpc/aws 1.0.0 --bump minor --registry REGISTRY", cli.ExitUsage, "--bump replaces the VERSION argument", "--bump minor"},
		{"publish module MODULE net/vpc/aws --bump build --registry REGISTRY", cli.ExitUsage, "--bump build: must be major, minor or patch", "usage: "},
		{"publish modules . net/{name}/aws", cli.ExitUsage, "VERSION or --bump is required", "--bump commits"},
		{"publish modules . net/{name}/aws 1.0.0 --bump minor", cli.ExitUsage, "VERSION cannot be combined with --bump", "usage: "},
		{"publish modules . net/{name}/aws 1.0.0 --version 1.0.0", cli.ExitUsage, "VERSION cannot be combined with --version", "usage: "},
		{"publish modules . net/{name}/aws --bump build", cli.ExitUsage, "--bump build: must be major, minor, patch or commits", "usage: "},
		{"publish modules . net/{name}/aws --version 1.0.0 --since v1", cli.ExitUsage, "--since requires --bump", "usage: "},
		{"publish modules . net/{name}/aws --bump minor --markdown", cli.ExitUsage, "--markdown requires --bump and --dry-run", "usage: "},
		{module + "--max-files 50001 --registry REGISTRY", cli.ExitUsage, "--max-files 50001: must be 1 to 50000, the most that can be pulled", "usage: okara publish module DIR"},
		{module + "extra --registry REGISTRY", cli.ExitUsage, `unexpected argument "extra"`, "usage: okara publish module DIR"},
		{"publish module net/vpc/aws MODULE 1.0.0 --registry REGISTRY", cli.ExitUsage, "must be NAMESPACE/NAME/SYSTEM", "usage: okara publish module DIR NAMESPACE"},
		{"publish module MODULE 1.0.0 net/vpc/aws --registry REGISTRY", cli.ExitUsage, `module "1.0.0": must be`, "usage: okara publish module DIR NAMESPACE"},
		{"show net/vpc/aws@1.1.0 1.0.0 --registry REGISTRY", cli.ExitUsage, `unexpected argument "1.0.0"`, "usage: okara show"},
		{"yank net/vpc/aws 9.9.9 --registry REGISTRY", cli.ExitNotFound, "has no version 9.9.9, the newest is 1.1.0", ""},
		{"pull net/vpc/aws --registry REGISTRY", cli.ExitUsage, "missing: DIR", "usage: okara pull"},
		{"state list", cli.ExitUsage, "no repository given", `a folder with a backend "oci" block`},
		{"state diff REGISTRY/infra/state", cli.ExitUsage, "missing: A", "usage: okara state diff"},
		{"state diff 1", cli.ExitUsage, "no repository given", "specify REPOSITORY"},
		{"state push", cli.ExitUsage, "missing: FILE", "usage: okara state push [REPOSITORY] FILE"},
		{"state push TEXT REGISTRY/infra/state", cli.ExitUsage, "REGISTRY/infra/state does not exist", "usage: okara state push [REPOSITORY] FILE"},
		{"serve TEXT", cli.ExitUsage, "okara serve takes no arguments", "`okara serve --config "},
		{"depot plan TEXT --file TEXT", cli.ExitUsage, "specify one depot file", "usage: okara depot plan [FILE]"},
		{"mirror", cli.ExitUsage, "specify a provider or a module", "usage: okara mirror"},

		// Addresses.
		{"publish module MODULE net/vpc 1.0.0 --registry REGISTRY", cli.ExitUsage, `module "net/vpc": must be NAMESPACE/NAME/SYSTEM`, "usage: "},
		{"publish module MODULE net/vpc/AWS 1.0.0 --registry REGISTRY", cli.ExitUsage, "upper-case 'A'", "usage: "},
		{"publish module MODULE net/vpc/aws/ 1.0.0 --registry REGISTRY", cli.ExitUsage, "must be NAMESPACE/NAME/SYSTEM", "usage: "},
		{"publish module MODULE https://REGISTRY/net/vpc/aws 1.0.0 --registry REGISTRY", cli.ExitUsage, "must be NAMESPACE/NAME/SYSTEM", "usage: "},
		{"publish provider DIR acme 1.0.0 --registry REGISTRY", cli.ExitUsage, "must be [HOST/]NAMESPACE/TYPE", "usage: "},
		{"list net/vpc --registry REGISTRY", cli.ExitNotFound, "nothing is published in REGISTRY/providers/net/vpc", "a module has three parts, NAMESPACE/NAME/SYSTEM"},
		{"show net/none/aws --registry REGISTRY", cli.ExitNotFound, "nothing is published in", "`okara list` shows what is published"},
		{"show net/vpc/aws --registry REGISTRY/other", cli.ExitNotFound, "nothing is published in REGISTRY/other/modules/net/vpc/aws", "`okara list`"},
		{"list net/vpc/aws/extra --registry REGISTRY", cli.ExitUsage, "must be NAMESPACE/NAME/SYSTEM", "usage: okara list"},
		{"mirror acme --registry REGISTRY", cli.ExitUsage, "must be [HOST/]NAMESPACE/TYPE", "usage: okara mirror"},

		// Pasted from elsewhere, or of another command.
		{"show okara.test/net/vpc/aws --registry REGISTRY", cli.ExitUsage, "omit the host: net/vpc/aws", "usage: okara show"},
		{"show oci://REGISTRY/modules/net/vpc/aws --registry REGISTRY", cli.ExitUsage, "without a scheme", "usage: okara show"},
		{"help nosuch", cli.ExitUsage, `unknown command "nosuch"`, "valid commands are"},
		{"state nosuch --help", cli.ExitUsage, `unknown command "nosuch" for "okara state"`, "valid commands are"},
		{"publish module MODULE net/vpc/aws --bump commits --registry REGISTRY", cli.ExitUsage, "--bump commits is for folders of modules", "okara publish modules"},
		{"publish modules MODULE net/{name}/aws 1.0.0 --registry REGISTRY", cli.ExitUsage, "has no folders with modules", "okara publish module MODULE ADDRESS VERSION"},
		{"publish module MODULE net/x/aws auto --registry REGISTRY", cli.ExitUsage, "not a git repository", "or specify the version"},
		{"deprecate net/vpc/aws@1.0.0 --replacement banana --registry REGISTRY", cli.ExitUsage, "is neither a version such as 2.0.0 nor an address", "usage: okara deprecate"},
		{"sign net/vpc/aws@1.0.0 --cosign-key KEYS/okara-cosign.key --replace --registry REGISTRY", cli.ExitUsage, "it requires --sign-key", "usage: okara sign"},
		{"publish provider DIR okara.test/acme/dns 1.0.0 --registry REGISTRY", cli.ExitUsage, "must be NAMESPACE/TYPE, without a host", "usage: okara publish provider"},
		{"login http://REGISTRY", cli.ExitUsage, "has a scheme", "HOST[:PORT]"},
		{"mirror acme/dns --from ./none --registry REGISTRY", cli.ExitUsage, "folder ./none does not exist", "--help"},
		{"state import REGISTRY/infra/x s3://bucket/key", cli.ExitUsage, "states cannot be read from s3://", "tofu state pull"},
		{"state import REGISTRY/catalog TEXT --registry REGISTRY", cli.ExitUsage, "REGISTRY/catalog is not for states", "HOST/state/NAME"},
		{"state diff REGISTRY/infra/state 1 DIR/none", cli.ExitUsage, "DIR/none does not exist", "A and B are versions"},
		{"state diff TEXT DIR/none", cli.ExitUsage, "DIR/none does not exist", "or state files"},
		{"state diff TEXT TEXT", cli.ExitUsage, "TEXT is not a state file", "or the number of a version"},
		{"state diff DIR/sealed TEXT", cli.ExitFailure, "okara: DIR/sealed: the state is encrypted by OpenTofu", ""},
		{"state diff nosuch.json", cli.ExitUsage, "nosuch.json does not exist", "A and B are versions"},
		{"state restore REGISTRY/infra/state", cli.ExitUsage, "missing: N", "okara state history REGISTRY/infra/state"},
		{"state prune REGISTRY/state/typo --keep 1 --yes", cli.ExitNotFound, "no states in REGISTRY/state/typo", "okara state list REGISTRY --all"},
		{"state keys REGISTRY/state/typo", cli.ExitNotFound, "no states in REGISTRY/state/typo", "okara state list REGISTRY --all"},
		{"state unlock REGISTRY/state/typo --take-over --yes", cli.ExitNotFound, "no states in REGISTRY/state/typo", "okara state list REGISTRY --all"},
		{"state import REGISTRY/infra/x FOLDER", cli.ExitUsage, "no state files in FOLDER", "expected *.tfstate files"},
		{"state import REGISTRY/infra/x oci://REGISTRY/state/typo", cli.ExitNotFound, "no states in REGISTRY/state/typo", "okara state list REGISTRY --all"},
		{"state import REGISTRY/infra/x TEXT", cli.ExitUsage, "not a state file", ""},
		{"state pull REGISTRY/infra/state --workspace=", cli.ExitUsage, "--workspace must not be empty", ""},
		{"bundle load TEXT --registry REGISTRY", cli.ExitUsage, "not a bundle", "okara bundle create"},
		{"bundle create TEXT net/vpc/aws --registry REGISTRY", cli.ExitConflict, "TEXT exists and is not a bundle", "name another file"},
		{"mirror --lockfile MODULE/main.tf --registry REGISTRY", cli.ExitUsage, "main.tf is not a dependency lock file", ""},
		{"depot import FOLDER", cli.ExitUsage, "no lock files in FOLDER", ""},
		{"depot import TEXT", cli.ExitUsage, "TEXT:1: expected an argument", ""},
		{"depot status DIR/none --registry REGISTRY", cli.ExitUsage, "DIR/none does not exist", ""},
		{"depot approve net/vpc/aws --registry REGISTRY", cli.ExitUsage, "missing: the version", ""},
		{"lock MODULE --modules --from nosuch", cli.ExitUsage, "--from is for providers", ""},
		{"keys list --dir DIR/none", cli.ExitUsage, "DIR/none does not exist", ""},
		{"admin gc --storage DIR", cli.ExitUsage, "DIR is not the storage of okara serve", ""},
		{"serve --storage TEXT --listen 127.0.0.1:0", cli.ExitUsage, "--storage: TEXT is a file, not a folder", ""},
		{"docs use/nosuch", cli.ExitNotFound, `no page about "use/nosuch"`, "lists all pages"},
		{"--registry tofu plan", cli.ExitUsage, `--registry took "tofu" as its value`, "write `okara tofu plan`"},
		{"publish module MODULE net/vpc/aws:2.0.0 --registry REGISTRY", cli.ExitUsage, "missing: VERSION", "write net/vpc/aws 2.0.0 or net/vpc/aws@2.0.0"},
		{"admin token new x read:module:acme/** --token-file DIR/t --write DIR/t", cli.ExitUsage, "name the same file", ""},
		{"admin token new x read:module:acme/** --token-file DIR/t --write TEXT", cli.ExitConflict, "TEXT already exists", "name a new file"},
		{"admin token new x read:module:acme/** --token-file DIR/none/t", cli.ExitUsage, "folder DIR/none does not exist", ""},
		{"admin token new x read:module:acme/** --token-file TEXT", cli.ExitUsage, "TEXT", ""},
		{"admin prune net/vpc/aws@1.0.0 --keep 1 --yes --registry REGISTRY", cli.ExitUsage, "@1.0.0 is one version, and --keep 1 keeps it", "okara yank --delete-tag net/vpc/aws@1.0.0"},
		{"admin prune net/vpc/aws --keep 1 --pin 1.3 --registry REGISTRY", cli.ExitUsage, "must be a version such as 1.0.0", ""},
		{"admin prune net/vpc/aws --keep 1 --pin 1.3.0 --registry REGISTRY", cli.ExitNotFound, "has no such version", "okara list net/vpc/aws"},
		{"workspace variable set acme/x PATH v --category env --server http://REGISTRY", cli.ExitUsage, "the variable PATH is set by the run itself", ""},
		{"workspace variable set acme/x a b --category banana --server http://REGISTRY", cli.ExitUsage, "must be terraform or env", ""},
		{"instance create nosuch --server http://REGISTRY", cli.ExitUsage, "must be NAMESPACE/NAME", ""},
		{"instance update abcdefgh23 --server http://REGISTRY", cli.ExitUsage, "nothing to change", ""},
		{"instance list --owner banana --server http://REGISTRY", cli.ExitUsage, "must be mine, me, offered, or KIND:", ""},
		{"instance template validate FOLDER", cli.ExitUsage, "no *.hcl files in FOLDER", "name a template file"},
		{"cli-config http://REGISTRY/ui/", cli.ExitUsage, "without the path of a page", ""},
		{"cli-config http://REGISTRY --hostname https://okara.test", cli.ExitUsage, "must be a host name, without a scheme", ""},
		{"yank net/vpc/aws@9.9.9 --yes --registry REGISTRY", cli.ExitNotFound, "has no version 9.9.9", "okara list net/vpc/aws"},
		{"deprecate net/vpc/aws@1.0.0 --replacement 1.0.0 --registry REGISTRY", cli.ExitUsage, "is this version itself", ""},
		{"state unlock REGISTRY/infra/state --id x --yes", cli.ExitNotFound, "lock x of workspace", "okara state locks REGISTRY/infra/state"},
		{"bundle create DIR/b.tar none/none/aws --registry REGISTRY", cli.ExitNotFound, "repository REGISTRY/modules/none/none/aws not found", "`okara list`"},
		{"bundle create DIR net/vpc/aws --registry REGISTRY", cli.ExitUsage, "DIR is a folder, not a file", "usage: okara bundle create"},
		{"bundle create DIR/none/b.tar net/vpc/aws --registry REGISTRY", cli.ExitUsage, "folder DIR/none does not exist", "usage: okara bundle create"},
		{"bundle show TEXT", cli.ExitUsage, "TEXT: not a bundle", "okara bundle create"},
		{"state pull REGISTRY/infra/state -o DIR/none/x", cli.ExitUsage, "folder DIR/none does not exist", "usage: okara state pull"},
		{"keys import TEXT --dir DIR/k", cli.ExitUsage, "not an armored OpenPGP key", "usage: okara keys import"},
		{"lock TEXT --registry REGISTRY", cli.ExitUsage, "TEXT is not a folder", "usage: okara lock"},
		{"lock DIR/none --modules --registry REGISTRY", cli.ExitUsage, "DIR/none does not exist", "usage: okara lock"},
		{"list --server http://PAGE", cli.ExitFailure, "not a response of an okara server", "check the address"},
		{"list --server http://REGISTRY --token-file DIR", cli.ExitUsage, "DIR is a folder, not a file", "usage: okara list"},
		{"admin scan net/vpc/aws@1.0.0 --scanner nosuch --registry REGISTRY", cli.ExitFailure, "nosuch: scanner not found", "--scanner"},

		// Versions.
		{"publish module MODULE net/vpc/aws 1.0 --registry REGISTRY", cli.ExitUsage, "did you mean 1.0.0?", "usage: "},
		{"show net/vpc/aws@9.9.9 --registry REGISTRY", cli.ExitNotFound, "has no version 9.9.9, the newest is 1.1.0", ""},
		{"list net/vpc/aws@9.9.9 --registry REGISTRY", cli.ExitNotFound, "has no version that matches 9.9.9, the newest is 1.1.0", ""},
		{"list net/vpc/aws@~>9.0 --registry REGISTRY", cli.ExitNotFound, "has no version that matches ~>9.0, the newest is 1.1.0", ""},
		{"pull net/vpc/aws@v9.9.9 DIR/out --registry REGISTRY", cli.ExitNotFound, "has no version 9.9.9, the newest is 1.1.0", ""},
		{"verify net/vpc/aws@9.9.9 --registry REGISTRY", cli.ExitNotFound, "the newest is 1.1.0", ""},
		{"admin scan net/vpc/aws@9.9.9 --registry REGISTRY", cli.ExitNotFound, "the newest is 1.1.0", ""},
		{"yank net/vpc/aws --registry REGISTRY", cli.ExitUsage, "has no version: expected ADDRESS@VERSION", "usage: okara yank"},
		{"yank net/vpc/aws@latest --registry REGISTRY", cli.ExitUsage, `version "latest"`, "usage: okara yank"},
		{"yank net/vpc/aws@9.9.9 --registry REGISTRY", cli.ExitNotFound, "has no version 9.9.9, the newest is 1.1.0", ""},
		{"deprecate net/vpc/aws@1.0.0 --replacement 9.9.9 --registry REGISTRY", cli.ExitNotFound, "replacement: REGISTRY/modules/net/vpc/aws has no version 9.9.9, the newest is 1.1.0", ""},
		{"deprecate net/vpc/aws@v9.9.9 --registry REGISTRY", cli.ExitNotFound, "has no version 9.9.9, the newest is 1.1.0", ""},
		{"bundle create DIR/b.tar net/vpc/aws@9.9.9 --registry REGISTRY", cli.ExitNotFound, "no version of REGISTRY/modules/net/vpc/aws matches", ""},
		{"publish package REGISTRY/x:1 net/vpc/aws 2.0.0 --registry REGISTRY", cli.ExitNotFound, "REGISTRY/x has no tag 1", ""},
		{"publish package REGISTRY/x net/vpc/aws 2.0.0 --registry REGISTRY", cli.ExitUsage, "has no tag", "usage: okara publish package"},
		{"state pull REGISTRY/infra/state --version 7", cli.ExitNotFound, `workspace "default" of REGISTRY/infra/state has no version 7, the newest is 1`, "`okara state history REGISTRY/infra/state -w default`"},
		{"state show REGISTRY/infra/state --version 7", cli.ExitNotFound, `version 7 of workspace "default"`, "`okara state history REGISTRY/infra/state -w default`"},
		{"state diff REGISTRY/infra/state 1 7", cli.ExitNotFound, "has no version 7, the newest is 1", "`okara state history"},
		{"state restore REGISTRY/infra/state 7", cli.ExitNotFound, "has no version 7, the newest is 1", "`okara state history"},
		{"state show REGISTRY/infra/state -w nope", cli.ExitNotFound, `workspace "nope" of REGISTRY/infra/state has no state`, "`okara state list REGISTRY/infra/state`"},

		// Registries, repositories and servers.
		{"mcp", cli.ExitUsage, "no server and no registry given", "--server URL"},
		{module, cli.ExitUsage, "no registry given", "--registry HOST[/PREFIX] or the variable OKARA_"},
		{"list --registry http://REGISTRY", cli.ExitUsage, "without a scheme", "add --plain-http"},
		{"list --registry REGISTRY/Up", cli.ExitUsage, "upper-case 'U'", "HOST[:PORT][/PREFIX]"},
		{"state list REGISTRY", cli.ExitUsage, "no path after the host", "HOST[:PORT]/PATH"},
		{"state list REGISTRY/infra/state:1", cli.ExitUsage, `remove ":1"`, "without a tag"},
		{"state list REGISTRY/Infra/State", cli.ExitUsage, "use lower-case letters", "HOST[:PORT]/PATH"},
		{"state list 127.0.0.1:1/infra/state", cli.ExitFailure, "GET http://127.0.0.1:1/v2/infra/state/", "nothing is listening there"},
		{"list --registry localhost:1", cli.ExitFailure, "GET http://localhost:1/v2/", "nothing is listening there"},
		{"state list TLS/infra/state", cli.ExitFailure, "unknown authority", "--ca-file"},
		{"state list TLS/infra/state --plain-http", cli.ExitFailure, "400 Bad Request", "it speaks https"},
		{"list --registry TLS --plain-http", cli.ExitFailure, "HTTP request to an HTTPS server", "omit --plain-http"},
		{module + "--server https://REGISTRY", cli.ExitFailure, "server gave HTTP response to HTTPS client", "it speaks http: write http://"},
		{module + "--server http://TLS", cli.ExitFailure, "HTTP request to an HTTPS server", "it speaks https: write https://"},
		{module + "--server http://okara.example.com", cli.ExitUsage, "a token is not sent without", "use https://"},
		{module + "--server https://me:hunter2@okara.example.com", cli.ExitUsage, "not the URL of a server", "usage: "},
		{module + "--server http://REGISTRY --registry REGISTRY", cli.ExitUsage, "are mutually exclusive", "usage: "},
		{module + "--server http://FAILS", cli.ExitFailure, "500 Internal Server Error: the server says: database is gone", "its log shows why"},
		{"state pull PAGE/infra/state", cli.ExitFailure, "HTML", ""},
		{"list --registry FAILS", cli.ExitFailure, `UNKNOWN: "database is gone"`, "its log shows why"},
		{"login REGISTRY/x", cli.ExitUsage, "is not the name of a registry", "HOST[:PORT] without a path"},
		{"cli-config ftp://x", cli.ExitUsage, "the scheme must be https", "usage: okara cli-config"},
		{"cli-config http://okara.example.com", cli.ExitUsage, "need https for a server on another machine", "--tls-cert"},
		{"serve --listen nonsense", cli.ExitUsage, "must be HOST:PORT", ""},
		{"serve --listen :0", cli.ExitUsage, "reachable from other machines", "--token-file FILE"},

		// Credentials.
		{"state list LOGIN/infra/state", cli.ExitDenied, "there are no credentials for LOGIN/infra/state", "log in with `okara login LOGIN`"},
		{"list --registry DENIES", cli.ExitDenied, `403 Forbidden: DENIED: "policy says no"`, "no credentials were sent to DENIES; log in with `okara login DENIES`"},
		{module + "--server http://LOGIN", cli.ExitDenied, "401 Unauthorized: the server says: who are you", "give a token with --token-file"},
		{module + "--server http://LOGIN --token-file TEXT", cli.ExitDenied, "401 Unauthorized", "the token from --token-file TEXT was refused"},
		{module + "--server http://DENIES --token-file TEXT", cli.ExitDenied, "403 Forbidden: the server says: policy says no", "it came from --token-file TEXT"},
		{module + "--server http://REGISTRY --token-file EMPTY", cli.ExitUsage, "must contain a single token", "usage: "},
		{"auth token REGISTRY", cli.ExitNotFound, "no credentials for REGISTRY", "`okara login REGISTRY`"},
		{"login REGISTRY", cli.ExitUsage, "standard input is not a terminal", "--password-stdin"},
		{"login REGISTRY -u me --password-stdin", cli.ExitUsage, "the password is empty", "usage: okara login"},
		{"keys export NOPE --dir DIR", cli.ExitNotFound, "no key NOPE in DIR", "`okara keys list`"},

		// Files.
		{"publish module TEXT net/vpc/aws 1.0.0 --registry REGISTRY", cli.ExitUsage, "TEXT is not a folder", "usage: okara publish module DIR"},
		{"publish module DIR/none net/vpc/aws 1.0.0 --registry REGISTRY", cli.ExitUsage, "DIR/none does not exist", "usage: okara publish module DIR"},
		{"publish module DIR net/vpc/aws 1.0.0 --registry REGISTRY", cli.ExitFailure, "no .tf, .tf.json, .tofu or .tofu.json file", "specify the folder with the module's files"},
		{"publish attachment net/vpc/aws x --server https://okara.example.com", cli.ExitUsage, "unknown flag: --server", "this command accesses the registry directly: specify the one behind the server with --registry"},
		{"admin prune net/vpc/aws --keep 1 --server https://okara.example.com", cli.ExitUsage, "unknown flag: --server", "list, show, pull, verify, publish, sign, deprecate, yank and audit also work through a server"},
		{"publish module MODULE net/vpc/aws 1.2.0 --include !a --registry REGISTRY", cli.ExitUsage, `--include "!a" is not a glob`, "usage: okara publish module"},
		{"publish provider TEXT acme/dns 1.0.0 --registry REGISTRY", cli.ExitUsage, "TEXT is not a folder", "usage: okara publish provider DIST"},
		{"publish provider DIR acme/dns 1.0.0 --registry REGISTRY", cli.ExitFailure, "not a provider package", "GoReleaser"},
		{"pull net/vpc/aws@1.0.0 TEXT --registry REGISTRY", cli.ExitUsage, "TEXT is a file, not a folder", "usage: okara pull"},
		{"state push REGISTRY/infra/state EMPTY", cli.ExitFailure, "not a state file", "`tofu state pull`"},
		{"state push REGISTRY/infra/state DIR", cli.ExitUsage, "is a folder, not a file", "usage: okara state push"},
		{"state push REGISTRY/infra/state DIR/none", cli.ExitUsage, "does not exist", "usage: okara state push"},
		{"depot plan TEXT", cli.ExitUsage, "TEXT:1: expected an argument, NAME = VALUE, or a block", ""},
		{"depot plan DIR/none", cli.ExitUsage, "does not exist", "usage: okara depot plan [FILE]"},
		{"depot plan", cli.ExitUsage, "depot.hcl does not exist", "usage: okara depot plan [FILE]"},
		{"serve --config TEXT", cli.ExitUsage, "TEXT:1", ""},
		{"sign net/vpc/aws@1.0.0 --cosign-key TEXT --registry REGISTRY", cli.ExitUsage, "not PEM", "usage: okara sign"},
		{"list --registry REGISTRY --ca-file TEXT", cli.ExitUsage, "no PEM certificate in it", "usage: okara list"},
		{"bundle load DIR --registry REGISTRY", cli.ExitUsage, "is a folder, not a file", "usage: okara bundle load FILE"},
		{"mirror --lockfile DIR --registry REGISTRY", cli.ExitUsage, "is a folder, not a file", "usage: okara mirror"},
		{"sign net/vpc/aws@1.0.0 --cosign-key PUBLIC --registry REGISTRY", cli.ExitUsage, "PUBLIC: read cosign key: this is a public key", "use the private key"},
		{"sign acme/dns@1.0.0 --sign-key KEYS/ID.pub.asc --registry REGISTRY", cli.ExitUsage, "this is a public key", "use the private key"},
		{"sign net/vpc/aws@1.0.0 --cosign-key DIR/none --registry REGISTRY", cli.ExitUsage, "does not exist", "`okara keys new` creates one"},
		{"verify net/vpc/aws@1.0.0 --cosign-key KEYS/okara-cosign.key --registry REGISTRY", cli.ExitUsage, "this is a private key", "use the public key"},
		{"TMPDIR=DIR/none publish module LARGE net/tmp/aws 1.0.0 --registry REGISTRY", cli.ExitFailure, "does not exist", "cannot create temporary files in DIR/none; set TMPDIR to another directory"},
		{"publish module LOOP net/vpc/aws 1.2.0 --registry REGISTRY", cli.ExitFailure, "a: circular symbolic link to b: refused", ""},
		{"publish provider UNSAFE acme/dns 1.0.0 --sign-key KEYS/ID.asc --registry REGISTRY", cli.ExitFailure, `unsafe path "../escaped"`, ""},
		{"publish provider RELEASE acme/dns 1.0.0 --registry REGISTRY", cli.ExitFailure, "SHA256SUMS is not signed", ""},
		{"bundle load CUT --registry REGISTRY", cli.ExitFailure, "CUT: the file is truncated", "copy the file again"},
		{"bundle show CUT", cli.ExitFailure, "CUT: the file is truncated", "copy the file again"},
		{"serve --listen REGISTRY --storage DIR/storage", cli.ExitFailure, "address already in use", "stop it, or set another port with --listen"},
		{"serve --config SETTINGS", cli.ExitUsage, `SETTINGS:1: An argument named "listne" is not expected here. Did you mean "listen"?`, ""},
		{"lock FOLDER --registry REGISTRY", cli.ExitFailure, "FOLDER: no .tf, .tf.json, .tofu or .tofu.json file", "name the folder of a root module"},
		{"mirror net/vpc/aws --from https://TLS --registry REGISTRY", cli.ExitUsage, `"https://TLS" is not a module registry`, "the host of a registry"},
		{"mirror acme/dns//x --registry REGISTRY", cli.ExitUsage, "//x is not a folder of a module", ""},
		{"mirror net/vpc/aws//../x --registry REGISTRY", cli.ExitUsage, "//../x is not a folder of a module", ""},
		{"exec -- nosuchprogram", exitNoTool, "nosuchprogram not found on PATH", "install it, or check PATH"},

		// Questions without a terminal, and missing arguments.
		{"yank net/vpc/aws@* --registry REGISTRY", cli.ExitUsage, "cannot prompt without a terminal: withdraw every version of net/vpc/aws", "--yes"},
		{"admin doctor instances --server http://REGISTRY", cli.ExitUsage, "no registry given", "--registry HOST[/PREFIX]"},
		{"bundle create CUT net/vpc/aws --registry REGISTRY", cli.ExitUsage, "CUT.sig is the signature of an earlier bundle", "--sign-key"},
		{"state unlock REGISTRY/infra/state --id x", cli.ExitUsage, "without a terminal", "--yes"},
		{"state unlock REGISTRY/infra/state", cli.ExitUsage, "exactly one of --id and --take-over", "usage: okara state unlock"},
		{"state delete REGISTRY/infra/state", cli.ExitUsage, "--workspace is required", "usage: okara state delete"},
		{"state delete REGISTRY/infra/state --key none", cli.ExitUsage, "--workspace is required", "usage: okara state delete"},
		{"state prune REGISTRY/infra/state --key none", cli.ExitUsage, "--keep must be at least 1", "usage: okara state prune"},
		{"state pull REGISTRY/infra/state --json -o - --key none", cli.ExitUsage, "--json requires --output", "usage: okara state pull"},
		{"state restore REGISTRY/infra/state x --key none", cli.ExitUsage, `version "x" is not a positive number`, "usage: okara state restore"},
		{"state unlock REGISTRY/infra/state --key none", cli.ExitUsage, "exactly one of --id and --take-over", "usage: okara state unlock"},
		{"sign net/vpc/aws --registry REGISTRY", cli.ExitUsage, "no key given", "usage: okara sign"},
	} {
		t.Run(row.line, func(t *testing.T) { u.check(t, row.line, row.code, row.reason, row.hint) })
	}
}

// writes is a registry that counts the requests that change it.
type writes struct {
	host string
	n    atomic.Int64
}

func newWrites(t *testing.T) *writes {
	t.Helper()
	w := &writes{}
	registry := ocitest.Handler(t, ocitest.Quirks{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.n.Add(1)
		}
		registry.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	w.host = strings.TrimPrefix(server.URL, "http://")
	return w
}

func mustWrite(t *testing.T, file string, b []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(file, b, 0o600))
}

// badUsage is a registry and servers with wrong answers.
type badUsage struct {
	registry *writes
	names    *strings.Replacer // the words in capitals
}

func newBadUsage(t *testing.T) badUsage {
	t.Helper()
	registry, module, dir := newWrites(t), newModuleDir(t), t.TempDir()
	for _, v := range []string{"1.0.0", "1.1.0"} {
		mustOkara(t, "publish", "module", module, "net/vpc/aws", v, "--registry", registry.host)
	}
	mustOkara(t, "state", "push", registry.host+"/infra/state", newFile(t, "state", stateText("a", 1)))
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	t.Cleanup(tls.Close)
	text, empty := filepath.Join(dir, "text"), filepath.Join(t.TempDir(), "empty")
	mustWrite(t, text, []byte("hello\n"))
	mustWrite(t, filepath.Join(dir, "sealed"), []byte(`{"encrypted_data":"AAAA"}`))
	mustWrite(t, empty, nil)
	keys, settings, cut := filepath.Join(dir, "keys"), filepath.Join(dir, "settings.hcl"), filepath.Join(dir, "cut.tar")
	mustOkara(t, "keys", "new", "--cosign", "--dir", keys)
	id, _, _ := strings.Cut(mustOkara(t, "keys", "new", "--ed25519", "--dir", keys), "\t")
	mustWrite(t, settings, []byte("listne = \"127.0.0.1:8080\"\n"))
	mustOkara(t, "bundle", "create", cut, "net/vpc/aws@1.0.0", "--registry", registry.host)
	mustWrite(t, cut+".sig", nil)
	if err := os.Truncate(cut, 4096); err != nil { // between two of its files
		t.Fatal(err)
	}
	unsafe, loop, large := t.TempDir(), newModuleDir(t), newModuleDir(t)
	noise := make([]byte, 300<<10) // more than is packed in memory
	_, _ = rand.Read(noise)        // it never fails
	mustWrite(t, filepath.Join(large, "noise"), noise)
	mustWrite(t, filepath.Join(unsafe, "terraform-provider-dns_1.0.0_linux_amd64.zip"), depottest.NewZip(t, depottest.File("terraform-provider-dns", "", 0o755), depottest.File("../escaped", "", 0o644)))
	for target, name := range map[string]string{"b": "a", "a": "b"} {
		must.Succeed(t, os.Symlink(target, filepath.Join(loop, name)))
	}
	return badUsage{registry, strings.NewReplacer(
		"PUBLIC", filepath.Join(keys, "okara-cosign.pub"), "KEYS", keys, "ID", id, "SETTINGS", settings, "CUT", cut, "FOLDER", t.TempDir(), "UNSAFE", unsafe, "LOOP", loop, "LARGE", large, "RELEASE", newRelease(t, 1, 100), "TMPDIR", "TMPDIR",
		"REGISTRY", registry.host, "MODULE", module, "DIR", dir, "TEXT", text, "EMPTY", empty, "TLS", strings.TrimPrefix(tls.URL, "https://"),
		"LOGIN", newAnswer(t, http.StatusUnauthorized, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you"}]}`),
		"DENIES", newAnswer(t, http.StatusForbidden, `{"errors":[{"code":"DENIED","message":"policy says no"}]}`),
		"PAGE", newAnswer(t, http.StatusOK, "<html>sign in</html>"),
		"FAILS", newAnswer(t, http.StatusInternalServerError, `{"errors":[{"code":"UNKNOWN","message":"database is gone"}]}`),
	)}
}

// newAnswer starts a server with one answer for all requests.
func newAnswer(t *testing.T, status int, body string) (host string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		}
		w.Header().Set("Retry-After", "60") // longer than a client waits
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // a truncated answer fails the test
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func (u badUsage) check(t *testing.T, line string, code int, reason, hint string) {
	t.Helper()
	before := u.registry.n.Load()
	words := strings.Fields(u.names.Replace(line))
	if dir, ok := strings.CutPrefix(words[0], "TMPDIR="); ok {
		_ = t.TempDir() // makes the test's folder before TMPDIR changes
		t.Setenv("TMPDIR", dir)
		words = words[1:]
	}
	o := okara(t, words...)
	message, said, _ := strings.Cut(o.err, "\nhint: ")
	if reason = literal(u.names, reason); o.code != code || !strings.Contains(message, reason) {
		t.Errorf("exit %d, want %d with %q\n%s%s", o.code, code, reason, o.out, o.err)
	}
	if hint = literal(u.names, hint); !strings.Contains(said, hint) {
		t.Errorf("hint %q, want %q", said, hint)
	}
	if (o.out != "" && !slices.Contains(words, "--json")) || u.registry.n.Load() != before {
		t.Errorf("%d writes to the registry, on stdout %q", u.registry.n.Load()-before, o.out)
	}
	if strings.Contains(o.err, "hunter2") {
		t.Errorf("a secret: %s", o.err)
	}
}

// literal leaves the words in capitals of a usage line unchanged.
func literal(names *strings.Replacer, text string) string {
	if strings.Contains(text, "usage: ") || strings.Contains(text, "missing: ") {
		return text
	}
	return names.Replace(text)
}
