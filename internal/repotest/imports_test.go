// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/seed-141914ff/okara"

// row says which of our packages one package may import, and why.
type row struct {
	pkg    string
	ours   []string
	reason string
}

// allowed is the table of imports. A package that is not listed fails the
// test: adding one is a decision.
var allowed = []row{
	{"cmd/okara", []string{
		"oci", "oci/artifact", "registry", "credentials", "statebackend", "statebackend/doctor", "statebackend/foreign", "statebackend/httpbackend", "statebackend/s3facade",
		"internal/addr", "internal/archive", "internal/blobcache", "internal/bridge", "internal/depot", "internal/embedded", "internal/envelope",
		"internal/frontend", "internal/httpserve", "internal/lockfile", "internal/moduledoc", "internal/scan", "internal/signing", "internal/statefile", "internal/syntax", "internal/upstream", "internal/web",
	}, "the command wires everything together; test packages never reach a user"},
	{"registry", []string{"oci", "oci/artifact", "internal/addr", "internal/archive", "internal/blobcache", "internal/cache", "internal/depot", "internal/moduledoc", "internal/signing", "internal/syntax", "internal/web"},
		"the front-end serves artifacts; it knows nothing of state, flags or listeners"},
	{"statebackend", []string{"oci", "oci/artifact", "internal/addr", "internal/envelope"},
		"a state store is a repository with rules; nothing above it may matter to the lock"},
	{"statebackend/httpbackend", []string{"statebackend", "oci", "oci/artifact"}, "a protocol over a Store"},
	{"statebackend/s3facade", []string{"statebackend", "oci", "oci/artifact"}, "a protocol over a Store"},
	{"statebackend/doctor", []string{"statebackend", "oci", "oci/artifact"}, "it examines a repository that it is given; how one is reached is the caller's"},
	{"statebackend/foreign", []string{"statebackend", "oci", "oci/artifact"}, "it reads states that others wrote; where a file or repository is named is the caller's"},
	{"credentials", []string{"oci"}, "it fills oci.CredentialFunc and nothing else"},
	{"oci", nil, "the client of one registry knows bytes, digests and tags, never what they mean"},
	{"oci/artifact", []string{"oci", "internal/addr"}, "what each kind looks like, never flags, files of the user or servers"},
	{"internal/depot", []string{"oci", "oci/artifact", "internal/addr", "internal/archive", "internal/moduledoc", "internal/scan", "internal/signing", "internal/syntax", "internal/upstream"},
		"publishing and syncing; one runner at a time comes in as a func, so that state stays out"},
	{"internal/frontend", []string{"oci", "oci/artifact", "internal/addr", "internal/depot", "internal/signing"},
		"it publishes through a front-end what depot would publish into a registry; it knows no registry"},
	{"internal/upstream", []string{"oci", "oci/artifact", "internal/addr", "internal/signing"}, "it only reads other people's registries"},
	{"internal/blobcache", []string{"oci"}, "files by digest; what they are of is their readers' affair"},
	{"internal/lockfile", []string{"oci", "oci/artifact", "internal/addr", "internal/depot", "internal/signing", "internal/syntax", "internal/upstream"}, "hashes of what depot could mirror"},
	{"internal/moduledoc", []string{"oci", "oci/artifact", "internal/addr", "internal/archive", "internal/syntax"}, "configuration in, description out"},
	{"internal/cache", []string{"oci"}, "it tells \"not found\", which is an answer, from a failure, which is none"},
	{"internal/bridge", []string{"oci", "oci/artifact", "statebackend", "statebackend/s3facade", "internal/addr", "internal/envelope", "internal/httpserve", "internal/syntax"},
		"it runs a tool beside a facade over the Store that a backend block describes, keys included"},
	{"internal/addr", nil, "leaf: pure names"},
	{"internal/archive", nil, "leaf: trees and bytes"},
	{"internal/embedded", nil, "leaf: a handler"},
	{"internal/envelope", nil, "leaf: bytes in, bytes out"},
	{"internal/httpserve", nil, "leaf: both ends of HTTP"},
	{"internal/scan", nil, "leaf: runs a program, reads its report"},
	{"internal/signing", nil, "leaf: sums and signatures"},
	{"internal/statefile", nil, "leaf: a state is JSON; whoever shows one masks it the same way"},
	{"internal/syntax", nil, "leaf: text in, syntax trees out"},
	{"internal/web", nil, "leaf: pages over data it is given"},
	{"internal/ocitest", []string{"*"}, "test package"},
	{"internal/tofutest", []string{"*"}, "test package"},
	{"internal/repotest", nil, "it reads the tree, not the code"},
}

// testOnly packages are imported by _test.go files and by each other only.
var testOnly = []string{"internal/ocitest", "internal/tofutest", "internal/repotest"}

// alone says which library has one importing package, so that replacing it is
// a change of one package. A library is the import path or a prefix of it.
var alone = []struct {
	library string
	pkgs    []string
	reason  string
}{
	{"github.com/spf13/cobra", []string{"cmd/okara"}, "flags stay at the edge"},
	{"github.com/vbauerster/mpb", []string{"cmd/okara"}, "progress is drawn at the edge"},
	{"oras.land/oras-go", []string{"oci"}, "the registry client"},
	{"github.com/coreos/go-oidc", []string{"registry"}, "tokens of an issuer are checked by the front-end"},
	{"github.com/aws/aws-sdk-go-v2", []string{"statebackend/s3facade"}, "only its request signer"},
	{"github.com/docker/cli", []string{"credentials"}, "the format of docker's configuration"},
	{"github.com/hashicorp/terraform-config-inspect", []string{"internal/moduledoc"}, "module descriptions"},
	{"github.com/go-git/go-git/v5/plumbing/format/gitignore", []string{"internal/archive"}, "ignore files"},
	{"github.com/go-git/go-git", []string{"internal/archive", "internal/upstream"}, "git sources; archive takes gitignore only"},
	{"github.com/google/go-github", []string{"internal/upstream"}, "GitHub releases"},
	{"github.com/hashicorp/hcl/v2/hclparse", nil, "internal/syntax parses, with bounds"},
	{"github.com/hashicorp/hcl/v2/hclsimple", nil, "internal/syntax parses, with bounds"},
	{"github.com/hashicorp/hcl/v2/gohcl", []string{"internal/syntax"}, "files are decoded with bounds"},
	{"github.com/hashicorp/hcl/v2/json", []string{"internal/syntax"}, "files are parsed with bounds"},
	{"github.com/hashicorp/hcl/v2/hclwrite", []string{"internal/bridge"}, "the override file"},
	{"github.com/hashicorp/go-cleanhttp", []string{"internal/httpserve"}, "the one outgoing transport"},
	{"github.com/hashicorp/go-retryablehttp", []string{"internal/frontend"}, "requests to a front-end all have the same effect once and twice; oci repeats by rules of its own"},
	{"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", []string{"internal/httpserve"}, "the one outgoing transport"},
	{"gocloud.dev/secrets", []string{"internal/envelope"}, "key services"},
	{"filippo.io/age", []string{"internal/envelope"}, "key wraps"},
	{"github.com/ProtonMail/go-crypto", []string{"internal/signing"}, "OpenPGP"},
	{"github.com/distribution/distribution", []string{"internal/embedded"}, "the embedded registry"},
	{"cuelabs.dev/go/oci/ociregistry", []string{"internal/ocitest"}, "a second registry, for tests"},
	{"github.com/rogpeppe/go-internal", testOnly, "tests only"},
	{"github.com/google/go-cmp", testOnly, "tests only"},
}

type pkg struct {
	ImportPath   string
	Dir          string
	Doc          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		i := slices.IndexFunc(allowed, func(r row) bool { return r.pkg == name })
		if i < 0 {
			t.Errorf("%s: a new package needs a row in the table of imports", name)
			continue
		}
		for _, path := range p.Imports {
			our, ok := strings.CutPrefix(path, module+"/")
			if ok {
				checkOurs(t, name, our, allowed[i])
			} else {
				checkLibrary(t, name, path)
			}
		}
	}
}

func checkOurs(t *testing.T, name, imported string, r row) {
	t.Helper()
	if slices.Contains(testOnly, imported) && !slices.Contains(testOnly, name) {
		t.Errorf("%s imports the test package %s: tests never reach a user", name, imported)
		return
	}
	if !slices.Contains(r.ours, imported) && !slices.Contains(r.ours, "*") {
		t.Errorf("%s must not import %s: %s", name, imported, r.reason)
	}
}

func checkLibrary(t *testing.T, name, path string) {
	t.Helper()
	if slices.Contains(testOnly, name) {
		return
	}
	for _, a := range alone {
		if path != a.library && !strings.HasPrefix(path, a.library+"/") {
			continue
		}
		if !slices.Contains(a.pkgs, name) {
			t.Errorf("%s must not import %s, which belongs to %s: %s", name, path, strings.Join(a.pkgs, ", "), a.reason)
		}
		return
	}
}

// TestPackageComments wants each package to say what it is for.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		if len(p.GoFiles) > 0 && !slices.Contains(p.GoFiles, "doc.go") {
			t.Errorf("%s has no doc.go: a package's design is found there", p.ImportPath)
		}
	}
}

// packages lists the packages of the root module.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Doc,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, e.Stderr)
		}
		t.Fatal(err)
	}
	var list []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}
