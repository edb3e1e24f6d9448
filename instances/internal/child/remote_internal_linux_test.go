// SPDX-License-Identifier: Apache-2.0

package child

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	digest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci"
)

// uploaded makes the files the uploaded configuration of the next attempts.
func (tr *trial) uploaded(files map[string]string) {
	tr.T.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for name, text := range files {
		must.Succeed(tr.T, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		must.Get(w.Write([]byte(text)))(tr.T)
	}
	must.Succeed(tr.T, w.Close())
	must.Succeed(tr.T, gz.Close())
	blob := oci.BytesBlob("application/vnd.okara.configuration.v1.tar+gzip", b.Bytes())
	must.Get(tr.Repo.Repo.EnsureBlob(tr.T.Context(), blob))(tr.T)
	tr.order.Spec.Source = template.Source{Digest: "sha256:manifest", Archive: blob.Digest.String(), Size: blob.Size}
}

func newRemote(t *testing.T, s runtest.Script, more map[string]string) *trial {
	t.Helper()
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), nil)
	files := s.Module()
	maps.Copy(files, more)
	tr.uploaded(files)
	o := &tr.order
	o.Spec.Workspace, o.Spec.State, o.Spec.Run = "run", run.StateTFE, "acme/prod run 1"
	o.Spec.Remote = &run.Remote{Organization: "acme", Workspace: "prod", RunID: "run-x.abc.1"}
	o.Spec.Ref.Kind = lifecycle.RunPlan
	o.Server = sandbox.Server{URL: "http://127.0.0.1:1", Host: "okara.example", Token: "okr_token-of-the-run"}
	return tr
}

// TestRemotePackages: a run gets the lock file's provider by a link, and its hash. The server is
// asked with the run's token.
func TestRemotePackages(t *testing.T) {
	zip := depottest.NewZip(t, depottest.File("terraform-provider-dns", "the program", 0o755))
	file := filepath.Join(t.TempDir(), "dns.zip")
	runtest.MustWrite(t, file, string(zip))
	h1 := must.Get(dirhash.HashZip(file, dirhash.Hash1))(t)
	zh := "zh:" + digest.FromBytes(zip).Encoded()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/dns.zip":
			_, _ = w.Write(zip)
		case r.URL.Path == "/mirror/okara.example/acme/dns/1.2.3.json" && r.Header.Get("Authorization") == "Bearer okr_token-of-the-run":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"archives":{%q:{"url":"/dns.zip","hashes":[%q,%q]}}}`, tofutest.Platform(), h1, zh)
		default:
			t.Errorf("asked for %s", r.URL)
		}
	}))
	defer server.Close()
	at := "okara.example/acme/dns/1.2.3/" + tofutest.Platform()
	tr := newRemote(t, runtest.Script{
		"init": {{Exit: 0}}, "plan": {{Cat: lockFileName}, {Sh: "readlink .terraform/providers/" + at}, {Exit: 2}},
	}, map[string]string{lockFileName: "provider \"okara.example/acme/dns\" {\n  version = \"1.2.3\"\n  hashes  = [\"" + zh + "\"]\n}\nprovider \"other.example/acme/dns\" {\n  version = \"1.2.3\"\n}\n"})
	tr.order.Server.URL = server.URL
	tr.order.Packages = sandbox.Packages{Dir: filepath.Join(t.TempDir(), "packages"), Max: 1 << 20}
	c := tr.next()
	must.Succeed(t, os.MkdirAll(c.Order.PackagesDir(), 0o700))
	must.Succeed(t, c.run(t.Context()))
	if r, log := tr.Result(); r.Outcome != lifecycle.Done || !strings.Contains(log, h1) || !strings.Contains(log, zh) || !strings.Contains(log, "/packages/0\n") {
		t.Errorf("%+v\n%s", r, log)
	}
	if b, err := os.ReadFile(filepath.Join(c.Order.PackagesDir(), "0", "terraform-provider-dns")); string(b) != "the program" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestRemotePlan checks what the tool receives, and what is kept of its plan.
//
// Shows: cloud 25
func TestRemotePlan(t *testing.T) {
	tr := newRemote(t, runtest.Script{
		"init": {{Print: "Initializing the backend..."}},
		"plan": {{Environ: true}, {Files: true}, {Cat: "okara_override.tf.json"}, {Cat: "../../given/variables.tfvars.json"}, {Cat: "../../given/tofu.rc"}, {Print: "Plan: 3 to add, 2 to change, 1 to destroy."}, {Print: "the end"}, {Exit: 2}},
	}, map[string]string{"terraform.tfvars": "own", "okara_override.tofu.json": "{}", "sub/x.tf": ""})
	input, err := json.Marshal(run.RemoteInput{
		Variables: map[string]json.RawMessage{"text": json.RawMessage(`"x\n}${path.module}"`)}, Targets: []string{"a.b[\"c d\"]"}, Replace: []string{"e.f"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := tr.order.Spec.Remote
	if r.Input, err = tr.Repo.PutInput(t.Context(), "abc", input); err != nil {
		t.Fatal(err)
	}
	r.Destroy, r.NoRefresh = true, true
	got, log := tr.run()
	if got.Outcome != lifecycle.Done || !got.Changes || got.Plan == "" || got.Resources != -1 || got.State || got.Counts == nil || *got.Counts != (lifecycle.Counts{Add: 3, Change: 2, Remove: 1}) {
		t.Errorf("report %+v\n%s", got, log)
	}
	work := filepath.Join(tr.order.Scratch, "work")
	for _, want := range []string{
		"TF_FORCE_LOCAL_BACKEND=1\n", "TF_WORKSPACE=prod\n", "TFE_RUN_ID=run-x.abc.1\n",
		`"cloud":{"hostname":"okara.example","organization":"acme","workspaces":{"name":"prod"}}`,
		`{"text":"x\n}${path.module}"}`, " -lock=false ", " -destroy", " -refresh=false", ` -target=a.b["c d"] `, " -replace=e.f ",
		" -var-file=" + work + "/given/variables.tfvars.json", `"tfe.v2" = "http://127.0.0.1:1/api/v2/"`, "terraform.tfvars",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	for _, not := range []string{"Initializing", "okara:", "okr_token", "okara_override.tofu.json", "OKARA_RUN"} {
		if strings.Contains(log, not) {
			t.Errorf("the log has %q:\n%s", not, log)
		}
	}
	if !strings.HasSuffix(log, "the end\n") {
		t.Errorf("the log goes on after the tool:\n%s", log)
	}
	tr.MustBeFree()
	if _, err := os.Lstat(filepath.Join(work, sandbox.Tool, moduleFolder)); !os.IsNotExist(err) {
		t.Errorf("what was uploaded stays: %v", err)
	}

	// The apply runs this plan, without variable files.
	tr.uploaded(map[string]string{"stub.json": runtest.Script{"apply": {{Environ: true}, {Files: true}, {Print: "Apply complete!"}}}.Module()["stub.json"], "terraform.tfvars": "own", "x.auto.tfvars.json": "{}"})
	tr.order.Spec.Ref.Kind = lifecycle.RunApply
	tr.order.Spec.Plan, tr.order.Spec.PlanTag = got.Plan, records.RunTag(tr.order.Spec.Ref)
	got, log = tr.run()
	if got.Outcome != lifecycle.Done || !strings.HasSuffix(log, "Apply complete!\n") || !strings.Contains(log, "files [okara_override.tf.json stub.json]") || strings.Contains(log, "-var-file") {
		t.Errorf("report %+v\n%s", got, log)
	}
	tr.order.Spec.Plan = "sha256:" + strings.Repeat("0", 64)
	if got, log = tr.run(); got.Outcome != lifecycle.RunFailed || strings.Contains(log, "Apply complete!") {
		t.Errorf("another plan was applied: %+v\n%s", got, log)
	}
}

// TestRemoteEncryption refuses an upload whose key provider could run any program, before
// the tool is started, unless the operator allows it.
//
// Shows: platform-attacks 10 | an upload whose key provider is a program
func TestRemoteEncryption(t *testing.T) {
	for name, text := range map[string]string{
		"main.tf":              "terraform {\n  encryption {\n    key_provider \"external\" \"x\" {\n      command = [\"/bin/true\"]\n    }\n  }\n}\n",
		"other.tofu":           "terraform {\n  encryption {}\n}\n",
		"a_override.tf":        "terraform {\n  encryption {}\n}\n",
		"main.tf.json":         `{"terraform":{"encryption":{"key_provider":{"external":{"x":{"command":["/bin/true"]}}}}}}`,
		"z_override.tofu.json": `{"terraform":[{"encryption":{}}]}`,
		"okara_override.tf":    "terraform {\n  encryption {}\n}\n", // the name that okara tofu uses
	} {
		t.Run(name, func(t *testing.T) {
			tr := newRemote(t, runtest.Script{"init": {{Stderr: "the tool has run"}, {Exit: 1}}}, map[string]string{name: text})
			r, log := tr.run()
			if r.Outcome != lifecycle.RunFailed || !strings.Contains(log, `an "encryption" block`) || !strings.Contains(log, "allow_encryption") || strings.Contains(log, "the tool has run") {
				t.Errorf("report %+v\n%s", r, log)
			}
			tr.order.AllowEncryption = true
			if _, log = tr.run(); !strings.Contains(log, "the tool has run") {
				t.Errorf("let in:\n%s", log)
			}
		})
	}
}

// An override file that is read after okara's cannot replace the backend of the workspace.
func TestRemoteBackend(t *testing.T) {
	for name, text := range map[string]string{
		"override.tf":        "terraform {\n  backend \"local\" {}\n}\n",
		"z_override.tf":      "terraform {\n  cloud {}\n}\n",
		"z_override.tf.json": `{"terraform":{"backend":{"local":{}}}}`,
		"z_override.tofu":    "terraform {\n  backend \"local\" {}\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			tr := newRemote(t, runtest.Script{"init": {{Stderr: "the tool has run"}, {Exit: 1}}}, map[string]string{name: text})
			if r, log := tr.run(); r.Outcome != lifecycle.RunFailed || !strings.Contains(log, "would replace that of the workspace") || strings.Contains(log, "the tool has run") {
				t.Errorf("report %+v\n%s", r, log)
			}
		})
	}
}

// TestRemoteFails has the output of a failing command in the log, once.
//
// Shows: cloud 25
func TestRemoteFails(t *testing.T) {
	tr := newRemote(t, runtest.Script{"init": {{Print: "Initializing"}, {Stderr: "Error: no such module"}, {Exit: 1}}}, nil)
	r, log := tr.run()
	if r.Outcome != lifecycle.RunFailed || log != "Initializing\nError: no such module\n" {
		t.Errorf("report %+v\n%q", r, log)
	}
	tr = newRemote(t, runtest.Script{"plan": {{Print: "Error: invalid"}, {Exit: 1}}}, nil)
	if r, log = tr.run(); r.Outcome != lifecycle.RunFailed || r.Plan != "" || log != "Error: invalid\n" {
		t.Errorf("report %+v\n%q", r, log)
	}
	tr = newRemote(t, runtest.Script{"plan": {{Print: "No changes."}}}, nil)
	if r, log = tr.run(); r.Outcome != lifecycle.Done || r.Changes || log != "No changes.\n" {
		t.Errorf("report %+v\n%q", r, log)
	}
	tr = newRemote(t, nil, nil)
	tr.order.Spec.Remote.Input = "sha256:" + strings.Repeat("0", 64)
	if r, log = tr.run(); r.Outcome != lifecycle.RunFailed || !strings.Contains(log, "variables of the run") {
		t.Errorf("without its variables: %+v\n%q", r, log)
	}
}

// TestRemoteKilled kills a tool that ignores the interrupt.
func TestRemoteKilled(t *testing.T) {
	tr := newRemote(t, runtest.Script{"plan": {{Mark: "../here"}, {Deaf: true}}}, nil)
	c := tr.next()
	ended := make(chan error, 1)
	go func() { ended <- c.run(t.Context()) }()
	runtest.Await(t, "the tool", func() bool {
		_, err := os.Stat(filepath.Join(tr.order.Scratch, "work", sandbox.Tool, "here"))
		return err == nil
	})
	tr.names(true, "cancelled by anna")
	<-c.stop.asked.Done()
	if err := syscall.Kill(os.Getpid(), sandbox.ForceSignal); err != nil { // this process is the child
		t.Fatal(err)
	}
	must.Succeed(t, <-ended)
	if r, log := tr.Result(); r.Outcome != lifecycle.Cancelled || r.Error != "cancelled by anna" {
		t.Errorf("report %+v\n%s", r, log)
	}
	tr.MustBeFree()
}

// TestRunLogGrows: a reader's log is always a prefix.
func TestRunLogGrows(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	file := must.Get(os.Create(name))(t)
	defer file.Close()
	l := newRunLog(newMasks(nil), 1000, file)
	l.grow()
	var last []byte
	for range 200 {
		l.logLine("0123456789 é")
		now := l.bytes()
		if !bytes.HasPrefix(now, last) {
			t.Fatalf("%q became %q", last, now)
		}
		last = now
	}
	l.logLine("Apply complete!")
	l.endLog()
	now := l.bytes()
	if !bytes.HasPrefix(now, last) || !bytes.HasSuffix(now, []byte("Apply complete!\n")) || len(now) > 1100 {
		t.Errorf("at the end: %q", now)
	}
	if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, now) {
		t.Errorf("the file has %q, %v", b, err)
	}
}

// TestPlanDocument keeps the schemas used by a plan, and no value of a variable.
func TestPlanDocument(t *testing.T) {
	const plan = `{"format_version":"1.2","variables":{"a":{"value":"s3cret"}},"resource_changes":[{"mode":"managed","type":"t","provider_name":"p"},{"mode":"data","type":"d","provider_name":"p"}]}`
	const schemas = `{"format_version":"1.0","provider_schemas":{"p":{"provider":{},"resource_schemas":{"t":{"version":1},"u":{}},"data_source_schemas":{"d":{},"t":{}}},"q":{}}}`
	got, err := planDocument([]byte(plan), []byte(schemas))
	const want = `{"plan":{"format_version":"1.2","resource_changes":[{"mode":"managed","type":"t","provider_name":"p"},{"mode":"data","type":"d","provider_name":"p"}]},` +
		`"schemas":{"format_version":"1.0","provider_schemas":{"p":{"resource_schemas":{"t":{"version":1}},"data_source_schemas":{"d":{}}}}}}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	for _, schemas := range []string{"", "{}", "[]"} {
		if got, err := planDocument([]byte(plan), []byte(schemas)); err == nil {
			t.Errorf("with schemas %q it is %s", schemas, got)
		}
	}
}

// FuzzPlanDocument combines arbitrary tool output, without values of variables.
func FuzzPlanDocument(f *testing.F) {
	f.Add(`{"variables":{"a":{"value":"s3cret"}},"resource_changes":[{"mode":"managed","type":"a","provider_name":"p"}]}`, `{"format_version":"1.0","provider_schemas":{"p":{"resource_schemas":{"a":{}}}}}`)
	f.Add(`null`, `null`)
	f.Add(`{"resource_drift":[{"mode":"data"}]}`, `{"provider_schemas":{"":{"data_source_schemas":{"":null}}}}`)
	f.Fuzz(func(t *testing.T, plan, schemas string) {
		b, err := planDocument([]byte(plan), []byte(schemas))
		var got struct {
			Plan map[string]json.RawMessage `json:"plan"`
		}
		if err == nil && json.Unmarshal(b, &got) != nil || got.Plan["variables"] != nil {
			t.Errorf("%q with %q is %s", plan, schemas, b)
		}
	})
}

// TestServerNames: each name by which a configuration may call this server.
func TestServerNames(t *testing.T) {
	s := frontEnd{URL: "https://okara.example.com:8443", Host: "okara.example.com", Token: "t", Mirror: true}
	config, err := s.cliConfig(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`host "okara.example.com" {`, `host "okara.example.com:8443" {`, `credentials "okara.example.com" {`, `credentials "okara.example.com:8443" {`,
		`exclude = ["okara.example.com/*/*", "okara.example.com:8443/*/*"]`,
	} {
		if strings.Count(config, want) != 1 {
			t.Errorf("%s is there %d times in\n%s", want, strings.Count(config, want), config)
		}
	}
	s = frontEnd{URL: "http://127.0.0.1:8080", Host: "okara.test"}
	if config, err = s.cliConfig(true); err != nil || !strings.Contains(config, `host "okara.test:8080" {`) || !strings.Contains(config, `host "127.0.0.1:8080" {`) {
		t.Errorf("%v, the configuration is\n%s", err, config)
	}
	s = frontEnd{URL: "http://[::1]:8080", Host: "okara.test"}
	if config, err = s.cliConfig(true); err != nil || strings.Contains(config, `host "[`) {
		t.Errorf("%v, the configuration is\n%s", err, config)
	}
}
