// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// origin is a git repository, served by git's own http-backend.
type origin struct {
	t   *testing.T
	dir string
	url string
}

func newOrigin(t *testing.T, tags ...string) *origin {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal("git is needed to build and test okara: ", err)
	}
	root := t.TempDir()
	o := &origin{t: t, dir: filepath.Join(root, "vpc")}
	must.Succeed(t, os.Mkdir(o.dir, 0o700))
	o.git("init", "-q")
	for _, tag := range tags {
		o.tag(tag, "# "+tag)
	}
	srv := httptest.NewServer(&cgi.Handler{
		Path: git, Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	})
	t.Cleanup(srv.Close)
	o.url = "git::" + srv.URL + "/vpc/.git"
	return o
}

func (o *origin) git(args ...string) {
	o.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", o.dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		o.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// tag commits a configuration and moves the tag to it.
func (o *origin) tag(name, text string) {
	o.t.Helper()
	must.Succeed(o.t, os.WriteFile(filepath.Join(o.dir, "main.tf"), []byte(text+"\n"), 0o600))
	o.git("add", ".")
	o.git("commit", "-q", "--allow-empty", "-m", name)
	o.git("tag", "-f", name)
}

// runner runs one depot file against one registry.
type runner struct {
	t      *testing.T
	host   string
	count  *ocitest.Count
	depot  *depot.Depot
	client *oci.Client
	src    depot.Source
	git    upstream.Git
	used   func(string, addr.Version) bool
	inUse  func(string, addr.Version) bool
	now    time.Time

	examined time.Time
	repair   bool
}

func newRunner(t *testing.T) *runner {
	t.Helper()
	r := &runner{t: t, host: ocitest.New(t, ocitest.Quirks{}), count: &ocitest.Count{}, now: time.Now()}
	r.depot, r.client = depottest.NewDepot(t, r.host, oci.Options{Transport: r.count, Retry: oci.Retry{MaxBackoff: 10 * time.Millisecond}}) // what a test removes is not waited for
	return r
}

func (r *runner) syncer(src string) *supply.Syncer {
	r.t.Helper()
	set := must.Get(supply.ParseSet("depot.hcl", []byte(src)))(r.t)
	from := supply.Origins{
		Client: &upstream.Client{}, Git: &r.git,
		Provider: func(string, addr.Provider) (depot.Source, error) { return r.src, nil },
		Open:     func(ref string) (*oci.Repo, error) { return oci.OpenRepo(ref, oci.Options{}) },
	}
	return supply.NewSyncer(r.depot, supply.SyncOptions{
		Set: set, Used: r.used, InUse: func(_ context.Context, address string) func(addr.Version) bool {
			return func(v addr.Version) bool { return r.inUse(address, v) }
		},
		Now: func() time.Time { return r.now }, Repair: r.repair, Examined: r.examined,
		Origins: func(string) (supply.Origins, error) { return from, nil },
	})
}

func (r *runner) plan(src string) []string {
	r.t.Helper()
	p := must.Get(r.syncer(src).Plan(r.t.Context()))(r.t)
	var lines []string
	for _, s := range p.Steps {
		lines = append(lines, fmt.Sprintf("%s %s", s.Action, s.Version))
	}
	return lines
}

// apply plans and applies, and returns "action version state" for each step.
func (r *runner) apply(src string) []string {
	r.t.Helper()
	s := r.syncer(src)
	p := must.Get(s.Plan(r.t.Context()))(r.t)
	results := must.Get(s.Apply(r.t.Context(), p, nil))(r.t)
	var lines []string
	for _, res := range results {
		line := strings.TrimSpace(fmt.Sprintf("%s %s %s", res.Action, res.Version, res.State))
		if res.Error != "" {
			line += " error"
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *runner) want(got []string, want ...string) {
	r.t.Helper()
	must.Match(r.t, "value", got, want)
}

// versions returns the version tags of the module net/vpc/aws.
func (r *runner) versions() []string {
	r.t.Helper()
	var out []string
	for _, tag := range depottest.MustTags(r.t, depottest.MustRepo(r.t, r.client, "p/modules/net/vpc/aws")) {
		if _, ok := addr.VersionFromTag(tag); ok {
			out = append(out, tag)
		}
	}
	slices.Sort(out)
	return out
}

func (r *runner) writes() int {
	n := 0
	for key, count := range r.count.Take() {
		if !strings.HasPrefix(key, "GET") && !strings.HasPrefix(key, "HEAD") {
			n += count
		}
	}
	return n
}

func moduleEntry(o *origin, more string) string {
	return fmt.Sprintf("module \"net/vpc/aws\" {\n source = %q\n versions = \"~> 1.0\"\n%s\n}\n", o.url, more)
}

// Shows: opendepot 5 | modules from elsewhere | any git URL, other registries, OCI repositories
func TestSyncFollowsTags(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v0.9.0", "v1.0.0", "v1.1.0", "v2.0.0", "nightly")
	file := moduleEntry(o, "")
	r.want(r.plan(file), "publish 1.1.0", "publish 1.0.0")
	if n := r.writes(); n != 0 {
		t.Errorf("a plan wrote %d times", n)
	}
	r.want(r.apply(file), "publish 1.1.0 published", "publish 1.0.0 published")
	r.want(r.versions(), "1.0.0", "1.1.0")

	r.count.Take()
	r.want(r.apply(file), "present 1.1.0", "present 1.0.0")
	if n := r.writes(); n != 0 {
		t.Errorf("an unchanged run wrote %d times", n)
	}

	o.tag("v1.2.0", "# new")
	o.git("tag", "-d", "v1.0.0")
	r.want(r.apply(file), "publish 1.2.0 published", "present 1.1.0")
	r.want(r.versions(), "1.0.0", "1.1.0", "1.2.0")
}

// TestSyncTakesOneOfAPair that differs only after "+".
func TestSyncTakesOneOfAPair(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0+2")
	leftOut := func(r *runner, want ...string) {
		t.Helper()
		p := must.Get(r.syncer(moduleEntry(o, "")).Plan(t.Context()))(t)
		var got []string
		for _, d := range p.LeftOut {
			reason, _, _ := strings.Cut(d.Reason, ",")
			got = append(got, d.Version+": "+reason)
		}
		r.want(got, want...)
	}
	r.want(r.apply(moduleEntry(o, "")), "publish 1.0.0+2 published")
	for _, tag := range []string{"v1.0.0+10", "v1.1.0", "1.1.0", "v1.2.3.4", "nightly", "V2.0.0", "release-3.0.0", "prod-3.0.0"} {
		o.tag(tag, "# "+tag)
	}
	notVersion := func(tag string) string {
		return fmt.Sprintf("%s: git tag %q: does not end in a semantic version such as v1.2.3", tag, tag)
	}
	const hint = "; set tag_prefix in the depot file to what precedes the version"
	bad := []string{notVersion("V2.0.0") + hint, notVersion("release-3.0.0") + hint, "v1.1.0: tag 1.1.0 already points to this version", notVersion("v1.2.3.4")}
	leftOut(newRunner(t), append(bad[:4:4], "1.0.0+2: to OpenTofu and Terraform it is 1.0.0+10")...)
	leftOut(r, append(bad[:4:4], "1.0.0+10: to OpenTofu and Terraform it is 1.0.0+2")...)
	r.want(r.apply(moduleEntry(o, "")), "publish 1.1.0 published", "present 1.0.0+2")
	r.want(r.versions(), "1.0.0_2", "1.1.0")
}

func TestSyncIgnores(t *testing.T) {
	r, o := newRunner(t), newOrigin(t)
	must.Succeed(t, os.WriteFile(filepath.Join(o.dir, "notes.md"), []byte("private"), 0o600))
	o.tag("v1.0.0", "# x")
	r.apply(moduleEntry(o, "ignore = [\"*.md\"]"))
	repo := depottest.MustRepo(t, r.client, "p/modules/net/vpc/aws")
	parsed := must.Get(artifact.ParseModule(depottest.MustFetch(t, repo, "1.0.0")))(t)
	zip := must.Get(repo.ReadBlob(t.Context(), *parsed.Zip, 1<<20))(t)
	if !strings.Contains(string(zip), "main.tf") || strings.Contains(string(zip), "notes.md") {
		t.Error("notes.md was shipped, or main.tf was not")
	}
}

// TestSyncRefusesALinkOutOfTheModule: no origin publishes this machine's files.
func TestSyncRefusesALinkOutOfTheModule(t *testing.T) {
	r, o := newRunner(t), newOrigin(t)
	outside := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(outside, "main.tf"), []byte("# secret"), 0o600))
	must.Succeed(t, os.Symlink(outside, filepath.Join(o.dir, "sub")))
	o.tag("v1.0.0", "# x")
	r.want(r.apply(moduleEntry(o, "subdir = \"sub\"")), "publish 1.0.0 published error")
	r.want(r.versions())
}

// Shows: opendepot 9 | immutable modules by checksum | immutable by default for modules and
// providers, editions by policy; each run compares the recorded digest
func TestSyncReportsDrift(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	file := moduleEntry(o, "")
	r.apply(file)
	before := depottest.MustFetch(t, depottest.MustRepo(t, r.client, "p/modules/net/vpc/aws"), "1.0.0")
	o.git("branch", "old", "v1.0.0")
	o.tag("v1.0.0", "# other")
	for range 2 {
		r.want(r.apply(file), "drift 1.0.0 drift")
	}
	if n := r.writes(); n == 0 {
		t.Error("the record did not remember the drift")
	}
	after := depottest.MustFetch(t, depottest.MustRepo(t, r.client, "p/modules/net/vpc/aws"), "1.0.0")
	if after.Digest != before.Digest {
		t.Error("drift was published")
	}
	o.git("tag", "-f", "v1.0.0", "old")
	r.want(r.apply(file), "adopt 1.0.0 published")
	r.want(r.apply(file), "present 1.0.0")
	r.want(r.apply(moduleEntry(o, `subdir = "modules/a"`)), "drift 1.0.0 drift") // without a fetch
	r.want(r.apply(file), "adopt 1.0.0 published")
}

// TestSyncPublishesEditions moves an origin's tag, beside another's edition.
func TestSyncPublishesEditions(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	file := moduleEntry(o, `policy = "editions"`)
	r.want(r.apply(file), "publish 1.0.0 published")
	r.want(r.apply(file), "present 1.0.0")
	o.tag("v1.0.0", "# other")
	r.want(r.plan(moduleEntry(o, "policy = \"editions\"\napproval {\n required = true\n}")), "drift 1.0.0") // nobody approved other content
	r.want(r.apply(file), "publish 1.0.0 published")
	r.want(r.apply(file), "present 1.0.0")
	m := addr.ModuleVersion{Module: depottest.VPC(), Version: depottest.MustVersion(t, "1.0.0")}
	must.Get(r.depot.PublishModule(t.Context(), depottest.NewModule("# third"), m, depot.ModuleOptions{Policy: depot.PolicyEditions}))(t)
	r.want(r.apply(file), "adopt 1.0.0 published")
	r.want(r.apply(file), "present 1.0.0")
	if editions := r.versions()[1:]; len(editions) != 3 {
		t.Errorf("got %v, want three editions", editions)
	}
}

// Shows: opendepot 9
func TestSyncSeesAMovedTagInTheRegistry(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0", "v1.1.0")
	file := moduleEntry(o, "")
	r.apply(file)
	repo := depottest.MustRepo(t, r.client, "p/modules/net/vpc/aws")
	must.Succeed(t, repo.PutTag(t.Context(), "1.0.0", depottest.MustFetch(t, repo, "1.1.0")))
	r.want(r.apply(file), "present 1.1.0", "drift 1.0.0 drift")
}

// Shows: opendepot 12 | history limit | `keep`, `pin`, `--used-by`; a plan is shown first
func TestSyncKeepsTheNewest(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0", "v1.1.0", "v1.2.0", "v1.3.0")
	r.apply(moduleEntry(o, ""))
	r.want(r.plan(strings.Replace(moduleEntry(o, "keep = 1"), "~> 1.0", "<= 1.1.0", 1)), "present 1.1.0", "prune 1.0.0") // 1.3.0 does not count
	r.want(r.plan(moduleEntry(o, "limit = 1\npin = [\"1.0.0\"]")), "present 1.3.0", "present 1.0.0")
	used := "1.1.0"
	r.used = func(entry string, v addr.Version) bool { return entry == "module net/vpc/aws" && v.String() == used }
	file := moduleEntry(o, "keep = 1\npin = [\"1.0.0\"]")
	r.want(r.plan(file), "present 1.3.0", "present 1.0.0", "prune 1.2.0")
	r.want(r.apply(file), "present 1.3.0", "present 1.0.0", "prune 1.2.0")
	r.want(r.versions(), "1.0.0", "1.1.0", "1.3.0")
	r.want(r.plan(file), "present 1.3.0", "present 1.0.0")
	r.inUse = func(address string, v addr.Version) bool { return address == "net/vpc/aws" && v.String() == "1.0.0" }
	r.want(r.plan(moduleEntry(o, "keep = \"used\"")), "present 1.3.0")
	r.inUse = func(string, addr.Version) bool { return false }
	used = ""
	r.want(r.plan(moduleEntry(o, "keep = \"2, used\"")), "present 1.3.0", "withdrawn 1.2.0", "present 1.1.0", "prune 1.0.0")
	r.want(r.plan(moduleEntry(o, "limit = 2")), "present 1.3.0", "withdrawn 1.2.0", "present 1.1.0")
}

// TestSyncKeepsWhatCanBeInstalled has newer versions that cannot be installed.
func TestSyncKeepsWhatCanBeInstalled(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0", "v1.1.0", "v1.2.0")
	r.apply(moduleEntry(o, ""))
	announce := func(an depot.Announcement) {
		t.Helper()
		if _, _, err := r.depot.Announce(t.Context(), depottest.VPC().Item(), an); err != nil {
			t.Fatal(err)
		}
	}
	announce(depot.Announcement{Action: evidence.ActionYank, Version: "1.2.0"})
	o.tag("v1.3.0", "# three")
	file := moduleEntry(o, "keep = 1\napproval {\n required = true\n}")
	r.want(r.apply(file), "publish 1.3.0 waiting", "prune 1.0.0")
	r.want(r.versions(), "1.1.0", "1.2.0")
	must.Get(r.depot.Approve(t.Context(), depottest.MustRepo(t, r.client, depottest.ModuleRepo), depottest.MustVersion(t, "1.3.0"), ""))(t)
	announce(depot.Announcement{Action: evidence.ActionDeprecate, Version: "1.3.0", Replacement: "1.1.0"})
	r.want(r.plan(file), "adopt 1.3.0", "present 1.2.0", "present 1.1.0")
	announce(depot.Announcement{Action: evidence.ActionUndeprecate, Version: "1.3.0"})
	r.want(r.plan(file), "adopt 1.3.0", "prune 1.2.0", "prune 1.1.0")
}

// TestSyncKeepsWhatHasNoSuccessor: not removed for one that is held back.
func TestSyncKeepsWhatHasNoSuccessor(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	r.apply(moduleEntry(o, ""))
	o.tag("v1.1.0", "# insecure")
	file := moduleEntry(o, fmt.Sprintf("keep = 1\nscan {\n scanner = %q\n block = \"high\"\n max_age = \"24h\"\n}", newScanner(t)))
	r.want(r.plan(file), "publish 1.1.0", "prune 1.0.0")
	r.want(r.apply(file), "publish 1.1.0 blocked", "present 1.0.0")
	r.want(r.versions(), "1.0.0")
	o.tag("v1.2.0", "# secure")
	r.want(r.apply(file), "publish 1.2.0 published", "prune 1.0.0")
	r.want(r.versions(), "1.2.0")
}

// newScanner finds one high problem in files with a marker.
func newScanner(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scanner")
	script := `#!/bin/sh
results=
if grep -qr insecure "$1"; then results='{"ruleId":"X","level":"error"}'; fi
printf '{"version":"2.1.0","runs":[{"tool":{"driver":{"rules":[]}},"results":[%s]}]}' "$results"
`
	must.Succeed(t, os.WriteFile(file, []byte(script), 0o700))
	return file
}

// Shows: opendepot 11 | Trivy scans, blocking by severity | `scan` block, `okara admin scan`; also
// any scanner that writes SARIF; the report is attached to the artifact; Trivy itself in `make
// interop`
// Shows: opendepot-defects 2 | a version is listed before it is scanned
func TestSyncBlocksWhatAScanFinds(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	o.tag("v1.1.0", "# insecure")
	file := moduleEntry(o, fmt.Sprintf("scan {\n scanner = %q\n block = \"high\"\n max_age = \"24h\"\n}", newScanner(t)))
	r.want(r.apply(file), "publish 1.1.0 blocked", "publish 1.0.0 published")
	r.want(r.versions(), "1.0.0")
	repo := depottest.MustRepo(t, r.client, "p/modules/net/vpc/aws")
	good := depottest.MustFetch(t, repo, "1.0.0")
	summary, ok, err := evidence.NewestScan(t.Context(), &evidence.Referrers{Repo: repo, Subject: good.Descriptor})
	if err != nil || !ok || summary.High != 0 || summary.Tool != "scanner" {
		t.Errorf("report of the clean version %+v, %v, %v", summary, ok, err)
	}
	candidates, err := depot.Candidates(t.Context(), repo)
	if err != nil || len(candidates) != 1 || candidates[0].Version.String() != "1.1.0" {
		t.Fatalf("candidates %+v, %v", candidates, err)
	}
	bad := depottest.MustFetch(t, repo, candidates[0].Tag)
	if summary, ok, err = evidence.NewestScan(t.Context(), &evidence.Referrers{Repo: repo, Subject: bad.Descriptor}); err != nil || !ok || summary.High != 1 {
		t.Errorf("report of the blocked version %+v, %v, %v", summary, ok, err)
	}
	r.want(r.apply(file), "blocked 1.1.0", "present 1.0.0")
	r.now = r.now.Add(25 * time.Hour)
	r.want(r.apply(file), "scan 1.1.0 blocked", "scan 1.0.0 published")
	must.Get(r.depot.Approve(t.Context(), repo, depottest.MustVersion(t, "1.1.0"), ""))(t)
	r.want(r.versions(), "1.0.0", "1.1.0")
	r.want(r.apply(file), "adopt 1.1.0 published", "present 1.0.0")
}

func TestSyncNeedsTheScannerThatThePolicyNames(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	r.want(r.apply(moduleEntry(o, "scan {\n scanner = \"/nowhere/scanner\"\n block = \"high\"\n}")), "publish 1.0.0 published error")
	r.want(r.versions())
}

func TestSyncWaitsForApproval(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	r.apply(moduleEntry(o, ""))
	o.tag("v1.0.1", "# patch")
	o.tag("v1.1.0", "# minor")
	file := moduleEntry(o, "approval {\n required = true\n patch = true\n older_than = \"72h\"\n}")
	r.want(r.apply(file), "publish 1.1.0 waiting", "publish 1.0.1 published", "present 1.0.0")
	r.want(r.versions(), "1.0.0", "1.0.1")
	r.now = r.now.Add(71 * time.Hour)
	r.want(r.apply(file), "waiting 1.1.0", "present 1.0.1", "present 1.0.0")
	r.now = r.now.Add(2 * time.Hour)
	r.want(r.apply(file), "approve 1.1.0 published", "present 1.0.1", "present 1.0.0")
	r.want(r.versions(), "1.0.0", "1.0.1", "1.1.0")
}

func TestSyncProvider(t *testing.T) {
	r := newRunner(t)
	k := depottest.NewKey(t, signing.KeyOptions{Name: "Test"})
	src := depottest.NewRelease(t, k, "linux_amd64", "darwin_arm64")
	src.Offers = []addr.Version{depottest.MustVersion(t, "1.2.3")}
	r.src = src
	file := fmt.Sprintf("provider \"registry.example.com/acme/dns\" {\n platforms = [\"linux_amd64\"]\n approval {\n required = true\n signed_by = [%q]\n }\n}", k.ID())
	r.want(r.apply(file), "publish 1.2.3 published")
	index, err := artifact.ParseProviderIndex(depottest.MustFetch(t, depottest.MustRepo(t, r.client, "p/mirror/registry.example.com/acme/dns"), "1.2.3"))
	if err != nil || len(index.Platforms) != 1 {
		t.Errorf("index %+v, %v", index, err)
	}
	r.want(r.apply(file), "present 1.2.3")

	other := newRunner(t)
	other.src = src
	other.want(other.apply(strings.Replace(file, k.ID(), strings.Repeat("0", 16), 1)), "publish 1.2.3 waiting")
}

func TestSyncGoesOnPastABrokenEntry(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	broken := strings.Replace(moduleEntry(o, ""), "net/vpc/aws", "net/gone/aws", 1)
	broken = strings.Replace(broken, "/vpc/.git", "/gone/.git", 1)
	r.want(r.apply(broken+moduleEntry(o, "")), "failed error", "publish 1.0.0 published")
}

func TestApplyThatIsCutGoesOn(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0", "v1.1.0")
	s := r.syncer(moduleEntry(o, ""))
	p := must.Get(s.Plan(t.Context()))(t)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Apply(ctx, p, func(supply.Result) { cancel() }); err == nil {
		t.Error("a cancelled run ended without an error")
	}
	// A version whose last answer was lost because of the interruption exists
	// without a record; the next run adopts it. All others are recorded.
	for _, res := range r.apply(moduleEntry(o, "")) {
		if strings.Contains(res, "error") || strings.Contains(res, "drift") {
			t.Errorf("the next run: %s", res)
		}
	}
	r.want(r.apply(moduleEntry(o, "")), "present 1.1.0", "present 1.0.0")
}

// TestSyncRefusesWhatIsBroken: a version that clients cannot load.
func TestSyncRefusesWhatIsBroken(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	o.tag("v1.1.0", "resorce \"a\" \"b\" {}")
	results := must.Get(r.syncer(moduleEntry(o, "")).Plan(t.Context()))(t)
	done, err := r.syncer(moduleEntry(o, "")).Apply(t.Context(), results, nil)
	if err != nil || len(done) != 2 || !errors.Is(done[0].Err(), description.ErrInvalid) || !strings.Contains(done[0].Error, "main.tf:1:1: ") || done[1].Err() != nil {
		t.Errorf("got %+v, %v", done, err)
	}
	r.want(r.versions(), "1.0.0")
	r.want(r.apply(moduleEntry(o, "allow_invalid = true")), "publish 1.1.0 published", "present 1.0.0")
}

// TestSyncRepairs pushes lost parts again, when asked or due.
func TestSyncRepairs(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	src := depottest.NewRelease(t, depottest.NewKey(t, signing.KeyOptions{Name: "A"}), "linux_amd64", "darwin_arm64")
	src.Offers = []addr.Version{depottest.MustVersion(t, "1.2.3")}
	r.src = src
	file := moduleEntry(o, "") + providerEntry("")
	r.want(r.apply(file), "publish 1.0.0 published", "publish 1.2.3 published")
	roots := map[*oci.Repo]oci.Manifest{}
	for name, tag := range map[string]string{"p/modules/net/vpc/aws": "1.0.0", "p/mirror/registry.example.com/acme/dns": "1.2.3"} {
		repo := depottest.MustRepo(t, r.client, name)
		roots[repo] = depottest.MustFetch(t, repo, tag)
	}
	for _, daily := range []bool{false, true} {
		for repo, root := range roots {
			r.lose(repo, root)
		}
		r.want(r.plan(file), "present 1.0.0", "present 1.2.3")
		if r.repair = !daily; daily {
			r.examined = r.now.Add(-25 * time.Hour)
		}
		r.want(r.plan(file), "repair 1.0.0", "repair 1.2.3")
		r.want(r.apply(file), "repair 1.0.0 published", "repair 1.2.3 published")
		r.want(r.plan(file), "present 1.0.0", "present 1.2.3")
		r.repair = false
		for repo, root := range roots {
			if lost, err := depot.LostParts(t.Context(), repo, root); err != nil || len(lost) > 0 {
				t.Errorf("%s: %d parts are lost, %v", repo, len(lost), err)
			}
		}
	}
}

// lose removes the parts of a version from the registry.
func (r *runner) lose(repo *oci.Repo, root oci.Manifest) {
	r.t.Helper()
	image, err := root.Image()
	parts, path := image.Layers, "blobs/"
	if err != nil {
		parts, path = must.Get(root.Index())(r.t).Manifests, "manifests/"
	}
	for _, part := range parts {
		req := must.Get(http.NewRequestWithContext(r.t.Context(), http.MethodDelete, "http://"+r.host+"/v2/"+repo.Name()+"/"+path+part.Digest.String(), nil))(r.t)
		must.Get(http.DefaultClient.Do(req))(r.t).Body.Close()
	}
}

// TestSyncRepairsEveryVersion, unselected ones too, and names what it cannot.
func TestSyncRepairsEveryVersion(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0", "v1.1.0", "v1.2.0")
	all := moduleEntry(o, "")
	newest := strings.Replace(all, "~> 1.0", "~> 1.2", 1)
	r.apply(all)
	repo := depottest.MustRepo(t, r.client, depottest.ModuleRepo)
	lose := func(tag string) { t.Helper(); r.lose(repo, depottest.MustFetch(t, repo, tag)) }
	problem := func(version, want string) {
		t.Helper()
		rec := must.Get(supply.ReadRecord(t.Context(), r.depot))(t)
		if got := rec.Entries[vpcKey][version].Problem(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("recorded of %s: %q, want %q", version, got, want)
		}
	}
	const lost = "the registry has lost 3 of its parts"
	lose("1.0.0")
	r.want(r.apply(newest), "present 1.2.0")
	r.repair = true
	r.want(r.apply(newest), "present 1.2.0", "repair 1.0.0 published")
	r.want(r.apply(newest), "present 1.2.0")

	lose("1.0.0")
	o.git("branch", "old", "v1.0.0")
	o.git("tag", "-d", "v1.0.0")
	r.want(r.apply(newest), "present 1.2.0", "failed 1.0.0 error")
	problem("1.0.0", lost)
	r.repair = false
	r.want(r.plan(newest), "present 1.2.0", "failed 1.0.0")
	r.want(r.plan(""), "failed 1.0.0") // the entry has left the file
	o.tag("v1.0.0", "# other")
	r.want(r.apply(newest), "present 1.2.0", "repair 1.0.0 published error")
	r.want(r.apply(all), "present 1.2.0", "present 1.1.0", "drift 1.0.0 drift")
	problem("1.0.0", "; "+lost)
	o.git("tag", "-f", "v1.0.0", "old")
	r.want(r.apply(all), "present 1.2.0", "present 1.1.0", "adopt 1.0.0 published")
	problem("1.0.0", lost)
	r.want(r.apply(all), "present 1.2.0", "present 1.1.0", "repair 1.0.0 published")
	problem("1.0.0", "")
}

// TestSyncRequests counts a new version's requests; others are examined once.
func TestSyncRequests(t *testing.T) {
	o, r := newOrigin(t, "v1.0.0", "v1.1.0", "v1.2.0"), newRunner(t)
	for i, most := range []int{46, 5, 19} {
		if i == 2 {
			o.tag("v1.3.0", "# new")
		}
		r.count.Take()
		r.apply(moduleEntry(o, ""))
		if got := r.count.Total(); got > most {
			t.Errorf("run %d took %d requests, at most %d: %v", i, got, most, r.count.Take())
		}
	}
}

// TestSyncLeavesOutOtherArtifacts: a chart takes no place among versions.
func TestSyncLeavesOutOtherArtifacts(t *testing.T) {
	r, reads := newRunner(t), &ocitest.Count{}
	origin, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: reads})
	v := depottest.MustVersion(t, "1.2.3")
	must.Get(origin.PublishModule(t.Context(), depottest.NewModule("# 1\n"), addr.ModuleVersion{Module: depottest.VPC(), Version: v}, depot.ModuleOptions{}))(t)
	must.Get(origin.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), v, depot.ProviderOptions{SignKey: depottest.NewKey(t, signing.KeyOptions{ECC: true})}))(t)
	module, provider := depottest.MustRepo(t, client, depottest.ModuleRepo), depottest.MustRepo(t, client, depottest.ProviderRepo)
	for _, repo := range []*oci.Repo{module, provider} {
		empty := oci.EmptyBlob()
		chart := must.Fixed(artifact.NewProviderTarget(empty.Descriptor, "x.zip"))
		must.Get(repo.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{empty}, Root: chart}))(t)
		must.Succeed(t, repo.PutTag(t.Context(), "9.0.0", chart))
	}
	r.src = upstream.NewRepository(func(addr.Provider) (*oci.Repo, error) { return provider, nil })
	s := r.syncer(fmt.Sprintf("module \"net/vpc/aws\" {\n  source = %q\n  keep = 1\n}\nprovider \"registry.example.com/acme/dns\" {\n  keep = 1\n  allow_unsigned = true\n}\n", "oci://"+module.String()))
	for range 2 {
		p := must.Get(s.Plan(t.Context()))(t)
		if len(p.Steps) != 2 || p.Steps[0].Version+p.Steps[1].Version != "1.2.31.2.3" || len(p.LeftOut) != 2 {
			t.Errorf("%+v, left out %v", p.Steps, p.LeftOut)
		}
		for _, res := range must.Get(s.Apply(t.Context(), p, nil))(t) {
			if res.Err() != nil {
				t.Error(res.Entry, res.Err())
			}
		}
	}
	must.GetBoth(r.depot.Announce(t.Context(), depottest.UpstreamDNS().Item(), depot.Announcement{Action: evidence.ActionYank, Version: "1.2.3", DeleteTag: true}))(t)
	r.src = upstream.NewRepository(func(addr.Provider) (*oci.Repo, error) { return provider, nil })
	reads.Take()
	r.want(r.plan("provider \"registry.example.com/acme/dns\" {}\n"), "withdrawn 1.2.3")
	if n := reads.Take()["GET manifest"]; n != 1 {
		t.Errorf("%d manifests were read, want that of the other artifact only", n)
	}
}
