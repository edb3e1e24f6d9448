// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Bounds on the fixed cost of okara. They may only be lowered.
const (
	maxBinary   = 64 << 20  // bytes of the program without symbols; 62 before who uses what, assistants and the lock of modules; 63 before the documentation
	maxInitSum  = 5_000_000 // bytes that all packages allocate when a command starts
	maxInits    = 525       // packages with initialization work; an error variable is enough; 521 before timestamps of signatures and dry runs
	maxLiveHeap = 6 << 20   // live bytes in an idle server
)

// A package that exceeds these bounds at startup needs a row in heavy.
const (
	maxInitBytes  = 50_000
	maxInitAllocs = 1_000

	besideBytes = 40_000 // what the runtime may count of code that runs during an init
)

// heavy lists packages beyond the bounds, with why; none is okara's own. A row goes when its
// package uses less than half of them.
const heavy = `
github.com/distribution/reference: expressions of names; the built-in registry
github.com/hashicorp/vault/api: settings from the environment; keys of states
github.com/yuin/goldmark/extension: expressions of links; Markdown of pages
github.com/yuin/goldmark/parser: expressions of blocks; Markdown of pages
github.com/yuin/goldmark/util: names of characters; Markdown of pages
github.com/google/go-cmp/cmp: gohcl brings it along by hclwrite
cloud.google.com/go/kms/apiv1/kmspb: messages of gRPC; keys of states
oras.land/oras-go/v2/registry: expressions of names; every command
github.com/gorilla/css/scanner: expressions of styles; bluemonday brings it along
github.com/microcosm-cc/bluemonday: expressions of attributes; Markdown of pages
github.com/microcosm-cc/bluemonday/css: expressions of styles; bluemonday brings it along
golang.org/x/net/html: names of elements; Markdown of pages
github.com/prometheus/client_golang/prometheus: names of figures of Go; counters of a server
github.com/prometheus/procfs: expressions of files; counters of a server
github.com/opencontainers/go-digest: expressions of digests; every command
github.com/aws/aws-sdk-go-v2/service/kms/internal/endpoints: places; keys of states
github.com/aws/aws-sdk-go-v2/service/sts/internal/endpoints: places; keys of states
github.com/aws/aws-sdk-go-v2/service/sso/internal/endpoints: places; keys of states
github.com/aws/aws-sdk-go-v2/service/ssooidc/internal/endpoints: places; keys of states
github.com/aws/aws-sdk-go-v2/service/signin/internal/endpoints: places; keys of states
google.golang.org/genproto/googleapis/api/annotations: messages of gRPC; keys of states
`

// TestCost measures without a clock: startup, an idle server, the program's size.
func TestCost(t *testing.T) {
	okara := must(findTools())(t).okara
	info := must(os.Stat(okara))(t)
	if info.Size() > maxBinary {
		t.Errorf("the program has %d bytes without symbols, at most %d", info.Size(), maxBinary)
	}
	t.Logf("%d bytes without symbols", info.Size())
	checkInits(t, okara)
	checkCollections(t, okara)
	checkIdle(t, okara)
}

// checkInits compares the work of package initialization with its bounds.
func checkInits(t *testing.T, okara string) {
	t.Helper()
	reasons := map[string]bool{}
	for row := range strings.Lines(strings.TrimSpace(heavy)) {
		name, _, _ := strings.Cut(row, ": ")
		reasons[name] = true
	}
	taken := fewestInits(t, okara)
	sum := 0
	for name, c := range taken {
		size, allocs := c[0], c[1]
		sum += size
		if size <= maxInitBytes/2 && allocs <= maxInitAllocs/2 {
			continue
		}
		if !reasons[name] && (size > maxInitBytes+besideBytes || allocs > maxInitAllocs) {
			t.Errorf("%s takes %d bytes in %d pieces when any command starts, at most %d and %d: have it made when it is first used", name, size, allocs, maxInitBytes, maxInitAllocs)
		}
		delete(reasons, name)
	}
	for name := range reasons {
		t.Errorf("%s: its exception is not needed any more", name)
	}
	if inits := len(taken); sum > maxInitSum || inits > maxInits || inits == 0 {
		t.Errorf("%d packages take %d bytes when a command starts, at most %d and %d", inits, sum, maxInits, maxInitSum)
	}
	t.Logf("%d packages take %d bytes at a start", len(taken), sum)
}

// fewestInits returns bytes and allocations of each package with initialization work: the
// minimum of several starts, since code that runs during an init is counted with it.
func fewestInits(t *testing.T, okara string) map[string][2]int {
	t.Helper()
	line := regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, (\d+) allocs$`)
	fewest := map[string][2]int{}
	for range 5 {
		cmd := exec.Command(okara, "--version")
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, m := range line.FindAllSubmatch(out, -1) {
			size, _ := strconv.Atoi(string(m[2]))   // digits
			allocs, _ := strconv.Atoi(string(m[3])) // likewise
			if c, ok := fewest[string(m[1])]; ok {
				size, allocs = min(size, c[0]), min(allocs, c[1])
			}
			fewest[string(m[1])] = [2]int{size, allocs}
		}
	}
	return fewest
}

// checkCollections checks that no garbage collection runs before a command does its work.
func checkCollections(t *testing.T, okara string) {
	t.Helper()
	for _, arg := range []string{"--version", "--help"} {
		cmd := exec.Command(okara, arg)
		cmd.Env = append(os.Environ(), "GOGC=", "GODEBUG=gctrace=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if n := strings.Count(string(out), "MB goal"); n > 0 {
			t.Errorf("okara %s collects garbage %d times", arg, n)
		}
	}
}

// checkIdle checks the live memory of a server that has just started.
func checkIdle(t *testing.T, okara string) {
	t.Helper()
	cmd := exec.Command(okara, "serve", "--listen", "127.0.0.1:0", "--storage", t.TempDir())
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GOGC=", "GOMEMLIMIT=")
	p, _ := mustBoth(start(cmd))(t)
	if err := p.stop(); err != nil { // then its output is complete
		t.Error(err)
	}
	m := regexp.MustCompile(`live_heap=(\d+)`).FindStringSubmatch(p.log.String())
	if m == nil {
		t.Fatalf("the log does not say what is alive:\n%s", p.log)
	}
	if live, _ := strconv.Atoi(m[1]); live > maxLiveHeap { // digits
		t.Errorf("%d bytes are alive in a server that does nothing, at most %d", live, maxLiveHeap)
	}
	t.Log(m[0])
}
