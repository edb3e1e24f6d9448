// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/seed-141914ff/okara"

// allowed says which of our packages one package may import, and why. A
// package that is not listed fails the test: adding one is a decision. There is
// one import a line, so that two changes of a row seldom meet; "*" is every
// package but the test packages, and "!" takes one of those away.
const allowed = `
cmd/okara: the command wires everything together; test packages never reach a user
	*
	!internal/cache
	!statebackend/s3facade
	!statebackend/httpbackend
registry: the front-end serves artifacts; it knows nothing of state, flags or listeners
	oci
	oci/artifact
	internal/access
	internal/addr
	internal/archive
	internal/blobcache
	internal/cache
	internal/catalog
	internal/depot
	internal/jobs
	internal/moduledoc
	internal/release
	internal/scratch
	internal/service
	internal/signing
	internal/supply
	internal/syntax
	internal/trust
	internal/prose
statebackend: a state store is a repository with rules; nothing above it may matter to the lock
	oci
	oci/artifact
	internal/addr
	internal/envelope
statebackend/httpbackend: a protocol over a Store; httpserve names requests
	oci
	oci/artifact
	statebackend
	internal/httpserve
	internal/remedy
statebackend/s3facade: a protocol over a Store
	oci
	oci/artifact
	statebackend
	internal/scratch
	internal/remedy
statebackend/doctor: it examines a repository that it is given; how one is reached is the caller's
	oci
	oci/artifact
	statebackend
	internal/addr
statebackend/foreign: it reads states that others wrote; where a file or repository is named is the caller's
	oci
	oci/artifact
	statebackend
	internal/addr
credentials: it fills oci.CredentialFunc and nothing else
	oci
	internal/diskfile
oci: the client of one registry knows bytes, digests and tags, never what they mean
	internal/netaddr
oci/artifact: what each kind looks like, never flags, files of the user or servers
	oci
	internal/addr
internal/supply: a declared set kept in step with its upstreams; one runner at a time comes in as a func, so that state stays out
	oci
	oci/artifact
	internal/addr
	internal/archive
	internal/depot
	internal/netaddr
	internal/release
	internal/netaddr
	internal/scan
	internal/scratch
	internal/signing
	internal/syntax
	internal/upstream
internal/trust: who vouches for a version, and whether that is enough; how a registry is reached is the caller's
	oci
	oci/artifact
	internal/addr
	internal/archive
	internal/moduledoc
	internal/release
	internal/scan
	internal/scratch
	internal/signing
internal/release: names and packages of a release; it reads what it is given
	oci
	oci/artifact
	internal/addr
	internal/archive
	internal/signing
internal/depot: publishing one version at a time; what is wanted, and what gates ask for, comes in as values
	oci
	oci/artifact
	internal/addr
	internal/archive
	internal/diskfile
	internal/moduledoc
	internal/release
	internal/scratch
	internal/signing
	internal/syntax
	internal/trust
	internal/upstream
internal/publishclient: it publishes through a front-end what depot would publish into a registry; it knows no registry
	oci
	oci/artifact
	internal/addr
	internal/depot
	internal/signing
internal/upstream: it only reads other people's registries
	internal/netaddr
	oci
	oci/artifact
	internal/addr
	internal/release
	internal/signing
internal/server: it puts the handlers on one port; flags, credentials and the words of a terminal come in as values
	oci
	oci/artifact
	registry
	statebackend
	statebackend/httpbackend
	internal/access
	internal/addr
	internal/blobcache
	internal/catalog
	internal/depot
	internal/embedded
	internal/httpserve
	internal/instance
	internal/jobs
	internal/ledger
	internal/netaddr
	internal/portal
	internal/run
	internal/scratch
	internal/service
	internal/supply
	internal/syntax
	internal/trust
	internal/web
	internal/upstream
	internal/prose
internal/blobcache: files by digest; what they are of is their readers' affair
	oci
	internal/scratch
internal/catalog: what depot wrote, read through caches and screened; revoked keys are taken out of what is served, so it reads keys; release names the files of an index that does not
	oci
	oci/artifact
	internal/addr
	internal/cache
	internal/depot
	internal/release
	internal/scan
	internal/signing
	internal/trust
internal/jobs: a queue in a repository; what its jobs do is their handlers' affair
	oci
	oci/artifact
internal/lockfile: hashes of what depot could mirror, for what a configuration requires
	oci
	oci/artifact
	internal/addr
	internal/depot
	internal/moduledoc
	internal/scratch
	internal/signing
	internal/supply
	internal/syntax
	internal/trust
	internal/upstream
internal/moduledoc: configuration in, description out
	oci
	oci/artifact
	internal/addr
	internal/archive
	internal/syntax
internal/access: who may do what; it knows names and rights, not what is behind them; httpserve names requests
	internal/netaddr
	oci
	internal/addr
	internal/cache
	internal/httpserve
	internal/prose
internal/service: what the services of a server share; it knows clients and refusals, not what is served
	oci
	internal/access
	internal/httpserve
internal/cache: it tells "not found", which is an answer, from a failure, which is none
	oci
internal/bridge: it runs a tool beside a facade over the Store that a backend block describes, keys included
	oci
	oci/artifact
	statebackend
	statebackend/s3facade
	internal/addr
	internal/diskfile
	internal/envelope
	internal/httpserve
	internal/syntax
	internal/scratch
internal/addr: leaf: pure names
internal/archive: trees and bytes
	internal/scratch
internal/bundle: files that carry what depot published; how a registry is reached is depot's
	oci
	oci/artifact
	internal/addr
	internal/depot
	internal/diskfile
	internal/signing
	internal/trust
internal/diskfile: leaf: bytes into files
internal/netaddr: leaf: what an address says
internal/embedded: leaf: a handler
internal/envelope: bytes in, bytes out
	internal/diskfile
internal/httpserve: both ends of HTTP
	internal/netaddr
	internal/diskfile
internal/scan: leaf: runs a program, reads its report
internal/scratch: leaf: temporary files and directories
internal/signing: sums and signatures
	internal/diskfile
internal/instance: the life of instances is a pure machine, without input or output
	internal/addr
	internal/syntax
	internal/prose
internal/run: one run of the tool; whether its attempt is still named comes in as a func
	oci
	oci/artifact
	statebackend
	statebackend/s3facade
	internal/addr
	internal/archive
	internal/bridge
	internal/diskfile
	internal/envelope
	internal/httpserve
	internal/instance
	internal/prose
	internal/remedy
	internal/scratch
internal/ledger: the document of the machine under the lock of a state; who forwards to its leader, and what is done with effects, is the caller's
	oci
	oci/artifact
	statebackend
	internal/diskfile
	internal/instance
internal/portal: the API of instances over a store that is passed in
	oci
	oci/artifact
	statebackend
	internal/access
	internal/addr
	internal/catalog
	internal/httpserve
	internal/instance
	internal/jobs
	internal/netaddr
	internal/portaldoc
	internal/run
	internal/service
	internal/statefile
internal/portaldoc: leaf: what the API of instances says
internal/portalclient: it asks a front-end for instances; how one is reached is publishclient's
	oci
	internal/portaldoc
	internal/publishclient
internal/web: the pages show what the catalog has, to whom the guard lets; they know no registry and no other server
	oci
	oci/artifact
	internal/access
	internal/addr
	internal/archive
	internal/cache
	internal/catalog
	internal/prose
	internal/scan
	internal/service
	internal/trust
internal/webtest: a real browser for tests; it knows no page
internal/statefile: leaf: a state is JSON; whoever shows one masks it the same way
internal/syntax: leaf: text in, syntax trees out
internal/prose: leaf: numbers and words as people write and read them
internal/remedy: it says in okara's commands what helps against errors of statebackend
	oci/artifact
	statebackend
internal/ocitest: test package
	*
internal/tofutest: test package
	*
internal/depottest: test package
	*
internal/portaltest: test package
	*
internal/repotest: it reads the tree, not the code
internal/conformance: a test module: other people's registries and clients on our packages
	*
	internal/tofutest
internal/e2e: a test module that knows okara as a process only
internal/e2e/dist: it builds what the end-to-end tests publish
internal/e2e/instances: a demonstration; it knows okara as a process only
`

// libraries says who may import a library, which is an import path or a prefix
// of one; the longest counts. Most have one importing package, so that
// replacing one is a change of one package; "*" is everybody. A row without a
// package is for tests only.
const libraries = `
cuelabs.dev/go/oci/ociregistry: a second registry
filippo.io/age: key wraps
	internal/envelope
github.com/ProtonMail/go-crypto: OpenPGP
	internal/signing
github.com/apparentlymart/go-versions: constraints as tofu reads them
	internal/addr
github.com/coreos/go-oidc: tokens of an issuer
	internal/access
github.com/distribution/distribution: the embedded registry
	internal/embedded
github.com/docker/cli: the format of docker's configuration
	credentials
github.com/felixge/httpsnoop: what a handler answered
	internal/httpserve
github.com/go-git/go-git: git sources
	internal/upstream
github.com/go-jose/go-jose: tokens of an issuer; a GitHub app's token
	internal/access
	internal/upstream
github.com/gofrs/flock: locks on files
	*
github.com/google/go-cmp: differences in tests
github.com/google/go-github: GitHub releases
	internal/upstream
github.com/google/uuid: lock IDs
	*
github.com/hashicorp/go-cleanhttp: the one outgoing transport
	internal/httpserve
github.com/hashicorp/go-retryablehttp: requests to a front-end all have the same effect once and twice; oci repeats by rules of its own
	internal/publishclient
github.com/hashicorp/hcl: version 1, for the CLI configuration of tofu
	credentials
github.com/hashicorp/hcl/v2: reading; internal/syntax parses, with bounds
	*
github.com/hashicorp/hcl/v2/gohcl: files are decoded with bounds
	internal/syntax
github.com/hashicorp/hcl/v2/hclparse: internal/syntax parses, with bounds
github.com/hashicorp/hcl/v2/hclsimple: internal/syntax parses, with bounds
github.com/hashicorp/hcl/v2/hclwrite: the override file
	internal/bridge
github.com/hashicorp/hcl/v2/json: files are parsed with bounds
	internal/syntax
github.com/alecthomas/chroma: colors in readmes
	internal/web
github.com/chromedp: a real browser
	internal/webtest
github.com/microcosm-cc/bluemonday: what a readme may be made of
	internal/web
github.com/yuin/goldmark: Markdown
	internal/web
github.com/hashicorp/terraform-config-inspect: module descriptions
	internal/moduledoc
github.com/klauspost/compress: deflate, gzip and zstd
	*
github.com/opencontainers: the words of the specifications
	*
github.com/prometheus/client_golang: counters
	*
github.com/rogpeppe/go-internal: scripts
github.com/santhosh-tekuri/jsonschema: values of parameters
	internal/instance
github.com/sirupsen/logrus: the log of the embedded registry
	internal/embedded
github.com/spf13: flags stay at the edge
	cmd/okara
github.com/vbauerster/mpb: progress is drawn at the edge
	cmd/okara
github.com/zclconf/go-cty: values of configurations
	*
go.opentelemetry.io/contrib: the one outgoing transport
	internal/httpserve
go.opentelemetry.io/otel: traces
	*
go.opentelemetry.io/otel/exporters: where traces go is a flag
	cmd/okara
go.opentelemetry.io/otel/sdk: where traces go is a flag
	cmd/okara
go.yaml.in/yaml: depot files
	internal/supply
gocloud.dev: key services
	internal/envelope
golang.org/x: Go's own
	*
oras.land/oras-go: the registry client
	oci
`

// testOnly packages are imported by _test.go files, by each other and by the
// test modules only.
var testOnly = []string{"internal/ocitest", "internal/tofutest", "internal/depottest", "internal/portaltest", "internal/webtest", "internal/repotest", "internal/conformance", "internal/e2e", "internal/e2e/dist"}

// row is one entry of a table: who or what, which packages, and why.
type row struct {
	name, reason string
	pkgs         []string
}

// rows reads a table.
func rows(t *testing.T, table string) []row {
	t.Helper()
	var list []row
	for line := range strings.Lines(strings.TrimSpace(table)) {
		line = strings.TrimRight(line, "\n")
		if p, ok := strings.CutPrefix(line, "\t"); ok {
			last := &list[len(list)-1]
			last.pkgs = append(last.pkgs, p)
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%q: a row is a name, a colon and a reason", line)
		}
		list = append(list, row{name: name, reason: reason})
	}
	return list
}

type pkg struct {
	name string // without the path of the root module

	ImportPath   string
	Dir          string
	Doc          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// imports lists what p imports. All of a test package is a test.
func (p pkg) imports() []string {
	if slices.Contains(testOnly, p.name) {
		return p.allImports()
	}
	return p.Imports
}

func (p pkg) allImports() []string { return slices.Concat(p.Imports, p.TestImports, p.XTestImports) }

func TestImports(t *testing.T) {
	table, libs := rows(t, allowed), rows(t, libraries)
	for _, p := range packages(t) {
		i := slices.IndexFunc(table, func(r row) bool { return r.name == p.name })
		if i < 0 {
			t.Errorf("%s: a new package needs a row in the table of imports", p.name)
			continue
		}
		may := table[i].expand(table)
		for _, imported := range p.imports() {
			our, ok := strings.CutPrefix(imported, module+"/")
			if !ok {
				checkLibrary(t, libs, p.name, imported)
			} else if our != p.name && !slices.Contains(may, our) {
				t.Errorf("%s must not import %s: %s", p.name, our, table[i].reason)
			}
		}
	}
}

// expand lists the packages of a row of the table of imports by name.
func (r row) expand(table []row) []string {
	var list []string
	for _, p := range r.pkgs {
		if not, ok := strings.CutPrefix(p, "!"); ok {
			list = slices.DeleteFunc(list, func(p string) bool { return p == not })
		} else if p != "*" {
			list = append(list, p)
		} else {
			for _, all := range table {
				if all.name != r.name && !slices.Contains(testOnly, all.name) {
					list = append(list, all.name)
				}
			}
		}
	}
	return list
}

// checkLibrary holds one import to the table of libraries. Test packages may
// import any: none of them reaches a user.
func checkLibrary(t *testing.T, libs []row, name, imported string) {
	t.Helper()
	if slices.Contains(testOnly, name) || standard(imported) {
		return
	}
	r, ok := library(libs, imported)
	if !ok {
		t.Errorf("%s imports %s: a new library needs a row in the table of libraries", name, imported)
	} else if !slices.Contains(r.pkgs, name) && !slices.Contains(r.pkgs, "*") {
		t.Errorf("%s must not import %s, which belongs to %s: %s", name, imported, strings.Join(append(r.pkgs, "tests"), ", "), r.reason)
	}
}

// standard reports whether a path is of Go's standard library.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// library finds the row of an import.
func library(libs []row, imported string) (found row, ok bool) {
	for _, r := range libs {
		if within(imported, r.name) && len(r.name) > len(found.name) {
			found, ok = r, true
		}
	}
	return found, ok
}

func within(name, prefix string) bool { return name == prefix || strings.HasPrefix(name, prefix+"/") }

// TestImportTable wants the table of imports to hold packages that exist, and
// no cycle: Go refuses one only once it has been written.
func TestImportTable(t *testing.T) {
	table := rows(t, allowed)
	var exist []string
	for _, p := range packages(t) {
		exist = append(exist, p.name)
	}
	next := map[string][]string{}
	for _, r := range table {
		if _, ok := next[r.name]; ok {
			t.Errorf("%s has two rows", r.name)
		}
		next[r.name] = r.expand(table)
		for _, p := range append(r.pkgs, r.name) {
			if p = strings.TrimPrefix(p, "!"); p != "*" && !slices.Contains(exist, p) {
				t.Errorf("%s: there is no package %s", r.name, p)
			}
		}
	}
	done := map[string]bool{}
	var visit func(way []string)
	visit = func(way []string) {
		name := way[len(way)-1]
		if i := slices.Index(way, name); i < len(way)-1 {
			t.Fatalf("the table of imports has a cycle: %s", strings.Join(way[i:], ", "))
		}
		if done[name] {
			return
		}
		for _, p := range next[name] {
			visit(append(way, p))
		}
		done[name] = true
	}
	for _, r := range table {
		visit([]string{r.name})
	}
}

// TestLibraryTable wants each row of the table of libraries to be of use: a
// library that nothing imports is none of ours, and a package that gave up a
// library must not keep the right to it.
func TestLibraryTable(t *testing.T) {
	libs := rows(t, libraries)
	by := map[string][]string{} // by row
	for _, p := range packages(t) {
		for _, imported := range p.allImports() {
			if r, ok := library(libs, imported); ok {
				by[r.name] = append(by[r.name], p.name)
			}
		}
	}
	for _, r := range libs {
		for _, p := range r.pkgs {
			if p != "*" && !slices.Contains(by[r.name], p) {
				t.Errorf("%s: %s does not import it: take that line away", r.name, p)
			}
		}
		// A refusal holds as long as there is the library it is a part of.
		_, part := library(libs, path.Dir(r.name))
		if len(by[r.name]) == 0 && (len(r.pkgs) > 0 || !part) {
			t.Errorf("%s: nothing imports it: take the row away", r.name)
		}
	}
}

// TestPackageComments wants each package to say what it is for.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		if len(p.GoFiles) > 0 && !slices.Contains(p.GoFiles, "doc.go") {
			t.Errorf("%s has no doc.go: a package's design is found there", p.ImportPath)
		}
	}
}

// packages lists the packages of all modules of the repository.
func packages(t *testing.T) []pkg {
	t.Helper()
	var list []pkg
	for _, dir := range modules(t) {
		cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Doc,GoFiles,Imports,TestImports,XTestImports", "./...")
		cmd.Dir = path.Join("../..", dir)
		out, err := cmd.Output()
		if err != nil {
			if e, ok := errors.AsType[*exec.ExitError](err); ok {
				t.Fatalf("go list in %s: %v\n%s", dir, err, e.Stderr)
			}
			t.Fatal(err)
		}
		dec := json.NewDecoder(strings.NewReader(string(out)))
		for {
			var p pkg
			if err := dec.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			p.name = strings.TrimPrefix(p.ImportPath, module+"/")
			list = append(list, p)
		}
	}
	return list
}

// modules lists the folders of the modules that hold code. Those that only pin
// the version of a tool hold none.
func modules(t *testing.T) []string {
	t.Helper()
	files := tracked(t)
	var dirs []string
	for _, name := range files {
		if path.Base(name) == "go.mod" && !within(name, "testdata") {
			dirs = append(dirs, path.Dir(name))
		}
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return dir != "." && !slices.ContainsFunc(files, func(f string) bool { return path.Ext(f) == ".go" && within(f, dir) })
	})
}
