// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"archive/zip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// wrappedModule shows what provider and provisioner see; its state's keys are in KMS.
const wrappedModule = `terraform {
  %[1]s
  required_providers {
    time = { source = "acme/time" }
  }
}

resource "time_static" "now" {}

resource "terraform_data" "see" {
  provisioner "local-exec" {
    command = "env -0 >%[2]s.provisioner; \"$OKARA\" state push \"$REGISTRY/infra/other\" state.json --key 'awskms:///alias/okara?region=us-east-1' || true"
  }
}
`

// TestToolEnvironment: under okara providers and provisioners have the stock environment and
// OKARA_RUN, and can use instance roles, which the backend does not ask for, in old folders too.
//
// Shows: mistakes 37 | `okara tofu` disabled the metadata service for providers and provisioners |
// their environment is that of the tool, plus `OKARA_RUN`
func TestToolEnvironment(t *testing.T) {
	eachTool(t, func(t *testing.T, c *cloud) {
		roles := newRoles(t)
		registry := c.registry()
		c.wrapProvider()
		c.env = append(c.env, "OKARA="+c.set.okara, "REGISTRY="+registry, "OKARA_TOFU="+c.tool, "OKARA_TERRAFORM="+c.tool,
			"AWS_EC2_METADATA_SERVICE_ENDPOINT="+roles.url, "AWS_ENDPOINT_URL_KMS="+roles.url)
		name := "tofu"
		if c.tool != c.set.tofu {
			name = "terraform"
		}
		block := fmt.Sprintf("backend \"oci\" {\n    repository = %q\n  }", registry+"/infra/state")

		stock := c.wrapped("stock", "")
		c.step("stock", c.tool, "init")
		c.step("stock", c.tool, "apply", "-auto-approve")
		if roles.asked.Swap(0) == 0 {
			t.Fatal("the stock tool asks for no role, so this test shows nothing")
		}
		under := c.wrapped("under", block)
		c.step("under", c.set.okara, name, "init")
		c.step("under", c.set.okara, name, "plan")
		if n := roles.asked.Swap(0); n > 0 {
			t.Errorf("the backend asked the metadata service %d times", n)
		}
		c.recordOfOldInit("under")
		out := c.step("under", c.set.okara, name, "apply", "-auto-approve", "-no-color")
		if roles.asked.Load() == 0 {
			t.Errorf("the provisioner could not ask for a role:\n%s", out)
		}
		for _, who := range []string{".provider", ".provisioner"} {
			want, got := c.environment(stock+who), c.environment(under+who)
			run := slices.IndexFunc(got, func(v string) bool { return strings.HasPrefix(v, "OKARA_RUN=") })
			if run < 0 {
				t.Fatalf("%s: no OKARA_RUN in %q", who, got)
			}
			if got = slices.Delete(got, run, run+1); !slices.Equal(got, want) {
				t.Errorf("%s has\n%s\nunder the stock tool\n%s", who, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		c.recordOfOldInit("under")
		c.step("under", c.set.okara, name, "init") // requests no role
		c.step("under", c.set.okara, name, "plan", "-detailed-exitcode")
	})
}

// roles is a metadata service that counts requests, and a KMS that does not encrypt.
type roles struct {
	url   string
	asked atomic.Int64 // requests for credentials of the role
}

func newRoles(t *testing.T) *roles {
	r := &roles{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		const list = "/latest/meta-data/iam/security-credentials/"
		switch {
		case q.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
			fmt.Fprint(w, "token")
		case q.URL.Path == list:
			r.asked.Add(1)
			fmt.Fprint(w, "builder")
		case strings.HasPrefix(q.URL.Path, "/latest/"):
			r.asked.Add(1)
			fmt.Fprint(w, `{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"AKIA","SecretAccessKey":"s","Token":"t","Expiration":"2099-01-01T00:00:00Z"}`)
		default:
			http.Error(w, `{"__type":"AccessDeniedException"}`, http.StatusBadRequest)
		}
	}))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// wrapProvider configures a provider that writes down its environment.
func (c *cloud) wrapProvider() {
	c.t.Helper()
	zips, err := filepath.Glob(filepath.Join(c.set.dist, "*_"+runtime.GOOS+"_"+runtime.GOARCH+".zip"))
	if err != nil || len(zips) != 1 {
		c.t.Fatalf("%v, %v", zips, err)
	}
	from := must(zip.OpenReader(zips[0]))(c.t)
	defer from.Close()
	dir := filepath.Join(c.dir, "plugins")
	program := filepath.Join(c.dir, "time-provider")
	for _, f := range from.File {
		if !strings.HasPrefix(f.Name, "terraform-provider-time") {
			continue
		}
		r := must(f.Open())(c.t)
		body := must(io.ReadAll(r))(c.t)
		succeed(c.t, os.WriteFile(program, body, 0o755))
	}
	script := "#!/bin/sh\nenv -0 >\"$PWD.provider\"\nexec " + program + " \"$@\"\n"
	config := "provider_installation {\n  filesystem_mirror {\n    path = \"" + dir + "\"\n  }\n}\n"
	write := map[string]string{filepath.Join(c.dir, "cli.tfrc"): config}
	for _, host := range []string{"registry.opentofu.org", "registry.terraform.io"} {
		version := filepath.Join(dir, host, "acme", "time", "1.0.0", runtime.GOOS+"_"+runtime.GOARCH)
		succeed(c.t, os.MkdirAll(version, 0o755))
		write[filepath.Join(version, "terraform-provider-time")] = script
	}
	for path, text := range write {
		succeed(c.t, os.WriteFile(path, []byte(text), 0o755))
	}
}

// wrapped makes a folder with the module, and returns its name.
func (c *cloud) wrapped(name, block string) string {
	c.t.Helper()
	dir := filepath.Join(c.dir, name)
	succeed(c.t, os.Mkdir(dir, 0o755))
	for file, text := range map[string]string{
		"main.tf": fmt.Sprintf(wrappedModule, block, dir), "state.json": `{"version":4,"terraform_version":"1.12.6","serial":1,"lineage":"a","outputs":{},"resources":[]}`,
	} {
		succeed(c.t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	return dir
}

// step runs a program in a folder.
func (c *cloud) step(folder string, args ...string) string {
	c.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = filepath.Join(c.dir, folder)
	cmd.Env = append([]string{
		"HOME=" + c.dir, "PATH=" + os.Getenv("PATH"), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0", "TF_CLI_CONFIG_FILE=" + filepath.Join(c.dir, "cli.tfrc"),
	}, c.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s in %s: %v\n%s", strings.Join(args, " "), folder, err, out)
	}
	return string(out)
}

// differs matches variables that name a folder, a process or a connection.
var differs = regexp.MustCompile(`^(PWD|OLDPWD|SHLVL|_|PLUGIN_\w+|TF_REATTACH_PROVIDERS)=`)

// environment returns what a program wrote down, sorted.
func (c *cloud) environment(file string) []string {
	c.t.Helper()
	text := must(os.ReadFile(file))(c.t)
	all := slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), differs.MatchString)
	slices.Sort(all)
	return all
}

// recordOfOldInit makes the record an older okara's, with skip_metadata_api_check.
func (c *cloud) recordOfOldInit(folder string) {
	c.t.Helper()
	path := filepath.Join(c.dir, folder, ".terraform", "terraform.tfstate")
	text := must(os.ReadFile(path))(c.t)
	was := regexp.MustCompile(`"skip_metadata_api_check": \w+`).ReplaceAll(text, []byte(`"skip_metadata_api_check": true`))
	was = regexp.MustCompile(`"hash": \d+`).ReplaceAll(was, []byte(`"hash": 1`))
	if string(was) == string(text) || !strings.Contains(string(was), `"skip_metadata_api_check": true`) {
		c.t.Fatalf("no argument of that name in the record:\n%s", text)
	}
	succeed(c.t, os.WriteFile(path, was, 0o644))
}
