// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestCLIConfig(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	must.Succeed(t, os.WriteFile(token, []byte(serveToken+"\n"), 0o600))
	tests := []struct {
		name string
		args []string
		want string // without the comment
	}{
		{"default", nil, `
host "127.0.0.1:8080" {
  services = {
    "modules.v1"   = "http://127.0.0.1:8080/v1/modules/"
    "providers.v1" = "http://127.0.0.1:8080/v1/providers/"
    "tfe.v2"       = "http://127.0.0.1:8080/api/v2/"
    "tfe.v2.1"     = "http://127.0.0.1:8080/api/v2/"
    "tfe.v2.2"     = "http://127.0.0.1:8080/api/v2/"
    "state.v2"     = "http://127.0.0.1:8080/api/v2/"
  }
}

# A server on this machine accepts any token, unless it has access rules. The tools
# require one before they list workspaces.
credentials "127.0.0.1:8080" {
  token = "anonymous"
}
`},
		{"https", []string{"https://okara.example.com", "--token-file", token}, `
credentials "okara.example.com" {
  token = "` + serveToken + `"
}

provider_installation {
  network_mirror {
    url     = "https://okara.example.com/mirror/"
    exclude = ["okara.example.com/*/*"]
  }
  direct {}
}
`},
		{"below a path, alone", []string{"https://example.com/tf/", "--no-direct", "--no-mirror"}, `
host "example.com" {
  services = {
    "modules.v1"   = "https://example.com/tf/v1/modules/"
    "providers.v1" = "https://example.com/tf/v1/providers/"
    "tfe.v2"       = "https://example.com/tf/api/v2/"
    "tfe.v2.1"     = "https://example.com/tf/api/v2/"
    "tfe.v2.2"     = "https://example.com/tf/api/v2/"
    "state.v2"     = "https://example.com/tf/api/v2/"
  }
}

provider_installation {
  direct {
    include = ["example.com/*/*"]
  }
}
`},
		{"a name of its own and a token, alone", []string{"https://10.0.0.7:8443", "--hostname", "okara.test", "--token-file", token, "--no-direct"}, `
host "okara.test" {
  services = {
    "modules.v1"   = "https://10.0.0.7:8443/v1/modules/"
    "providers.v1" = "https://10.0.0.7:8443/v1/providers/"
    "tfe.v2"       = "https://10.0.0.7:8443/api/v2/"
    "tfe.v2.1"     = "https://10.0.0.7:8443/api/v2/"
    "tfe.v2.2"     = "https://10.0.0.7:8443/api/v2/"
    "state.v2"     = "https://10.0.0.7:8443/api/v2/"
  }
}

credentials "okara.test" {
  token = "` + serveToken + `"
}

credentials "10.0.0.7:8443" {
  token = "` + serveToken + `"
}

provider_installation {
  network_mirror {
    url     = "https://10.0.0.7:8443/mirror/"
    exclude = ["okara.test/*/*"]
  }
  direct {
    include = ["okara.test/*/*"]
  }
}
`},
		{"private origin", []string{"https://okara.example.com", "--origin", "other.example.com", "--token-file", token}, `
credentials "okara.example.com" {
  token = "` + serveToken + `"
}

host "other.example.com" {
  services = {
    "providers.v1" = "https://okara.example.com/origin/other.example.com/v1/providers/"
  }
}

credentials "other.example.com" {
  token = "` + serveToken + `"
}
`},
		{"origin", []string{"https://okara.example.com", "--origin", "Registry.OpenTofu.org", "--origin", "other.example.com"}, `
host "registry.opentofu.org" {
  services = {
    "modules.v1"   = "https://registry.opentofu.org/v1/modules/"
    "providers.v1" = "https://okara.example.com/origin/registry.opentofu.org/v1/providers/"
  }
}

host "other.example.com" {
  services = {
    "providers.v1" = "https://okara.example.com/origin/other.example.com/v1/providers/"
  }
}
`},
		{"oci mirror", []string{"https://okara.example.com", "--no-mirror", "--oci-mirror", "reg.example.com/p"}, `
provider_installation {
  oci_mirror { # mirrored providers
    repository_template = "reg.example.com/p/mirror/${hostname}/${namespace}/${type}"
    include             = ["registry.opentofu.org/*/*", "registry.terraform.io/*/*"]
  }
  oci_mirror { # providers published with okara
    repository_template = "reg.example.com/p/providers/${namespace}/${type}"
    include             = ["okara.example.com/*/*"]
  }
  direct {}
}
`},
		{"oci mirror alone", []string{"--no-direct", "--oci-mirror", "reg.example.com/p"}, `
provider_installation {
  oci_mirror { # mirrored providers
    repository_template = "reg.example.com/p/mirror/${hostname}/${namespace}/${type}"
    include             = ["registry.opentofu.org/*/*", "registry.terraform.io/*/*"]
  }
}
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := runCommand(t.Context(), append([]string{"cli-config"}, tt.args...), strings.NewReader(""), &out, &errOut, func(string) string { return "" })
			if code != cli.ExitOK {
				t.Fatalf("exit %d: %s", code, errOut.String())
			}
			_, body, _ := strings.Cut(out.String(), "/path/to/this/file\n")
			must.Match(t, "value", body, tt.want)
		})
	}
}

// TestCLIConfigAsks servers without scheme: https, then http.
func TestCLIConfigAsks(t *testing.T) {
	asked := make(chan string, 4)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path })
	plain, secure, gone := httptest.NewServer(h), httptest.NewUnstartedServer(h), httptest.NewServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of an untrusted certificate
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	gone.Close()
	for _, tt := range []struct {
		name, host, path, want, note string
		asked                        int // requests that arrived
	}{
		{"http", plain.Listener.Addr().String(), "", "http", "", 1},
		{"http below a path", plain.Listener.Addr().String(), "/tf", "http", "", 1},
		{"https with a certificate of its own", secure.Listener.Addr().String(), "", "https", "", 0},
		{"nobody there", gone.Listener.Addr().String(), "", "https", "over https or http, assuming https", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := okara(t, "cli-config", tt.host+tt.path)
			if want := "# CLI configuration of tofu and terraform for " + tt.want + "://" + tt.host + tt.path + "\n"; o.code != cli.ExitOK || !strings.HasPrefix(o.out, want) {
				t.Errorf("exit %d, got %q, want %q", o.code, o.out, want)
			}
			if !strings.Contains(o.err, tt.note) || tt.note == "" && o.err != "" {
				t.Errorf("stderr %q, want %q", o.err, tt.note)
			}
			for range tt.asked {
				must.Equal(t, "asked for", <-asked, "/.well-known/terraform.json")
			}
			if len(asked) > 0 {
				t.Errorf("%d requests too many", len(asked))
			}
		})
	}
}

func TestCLIConfigWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.tfrc")
	var out, errOut bytes.Buffer
	args := []string{"cli-config", "https://okara.example.com", "--token-file", "-", "--write", file}
	if code := runCommand(t.Context(), args, strings.NewReader("secret-token"), &out, &errOut, func(string) string { return "" }); code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, errOut.String())
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != fs.FileMode(0o600) {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if !strings.Contains(errOut.String(), "TF_CLI_CONFIG_FILE="+file) || out.Len() > 0 || strings.Contains(errOut.String(), "secret") {
		t.Errorf("stdout %q, stderr %q", out.String(), errOut.String())
	}
}

// TestCLIConfigMerges: what is there stays, okara's blocks are replaced, no tokens shown.
func TestCLIConfigMerges(t *testing.T) {
	const own = "# mine\r\nhost \"other.example\" { services = { \"modules.v1\" = \"https://okara.example.com.other.example/\" } }\nplugin_cache_dir = \"$HOME/.cache\"\n\ncredentials \"app.example.net\" { token = \"mine\" }\n" +
		"credentials \"okara.example.com\" {\n  token = <<E\nold-secret\nE\n}\nprovider_installation {\n  filesystem_mirror {\n    path = \"/srv\"\n  }\n}\n# end"
	dir := t.TempDir()
	file, link := filepath.Join(dir, "dotfiles"), filepath.Join(dir, "tofurc")
	must.Succeed(t, os.WriteFile(file, []byte(own), 0o600))
	must.Succeed(t, os.Symlink(file, link))
	write := func() outcome {
		token := newFile(t, "token", "new-secret\n")
		return okara(t, "cli-config", "https://okara.example.com", "--token-file", token, "--write", link)
	}
	o := write()
	got := string(must.Get(os.ReadFile(file))(t))
	want := strings.Replace(own, "<<E\nold-secret\nE", `"new-secret"`, 1)
	want = strings.Replace(want, "  filesystem_mirror {\n    path = \"/srv\"\n  }\n", "  network_mirror {\n    url     = \"https://okara.example.com/mirror/\"\n    exclude = [\"okara.example.com/*/*\"]\n  }\n  direct {}\n", 1)
	if o.code != cli.ExitOK || got != want {
		t.Errorf("exit %d: %s\ngot %q\nwant %q", o.code, o.err, got, want)
	}
	if strings.Contains(o.err, "secret") || !strings.Contains(o.err, "-   filesystem_mirror {") || !strings.Contains(o.err, "+ credentials \"okara.example.com\" { token = (hidden) }") {
		t.Errorf("the difference: %s", o.err)
	}
	if o := write(); o.code != cli.ExitOK || string(must.Get(os.ReadFile(file))(t)) != want || strings.Contains(o.err, "+ ") {
		t.Errorf("written again: exit %d: %s", o.code, o.err)
	}
	if o := okara(t, "cli-config", "https://okara.example.com", "--no-mirror", "--write", link); o.code != cli.ExitOK || strings.Contains(string(must.Get(os.ReadFile(file))(t)), "network_mirror") {
		t.Errorf("without a mirror: exit %d: %s", o.code, o.err)
	}
	must.Succeed(t, os.WriteFile(file, []byte("credentials {{\n"), 0o600))
	if o := write(); o.code != cli.ExitUsage || string(must.Get(os.ReadFile(file))(t)) != "credentials {{\n" {
		t.Errorf("a file that cannot be read: exit %d: %s", o.code, o.err)
	}
}

func TestCLIConfigRefuses(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	must.Succeed(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"token for strangers":  {[]string{"https://okara.example.com", "--origin", "registry.opentofu.org", "--token-file", token}, "would send the token to registry.opentofu.org too"},
		"plain http elsewhere": {[]string{"http://okara.example.com"}, "https"},
		"name without a dot":   {[]string{"http://localhost:8080"}, "127.0.0.1"},
		"bad host name":        {[]string{"--hostname", "a b.c"}, "must be a host name"},
		"no URL":               {[]string{"ftp://x.example.com"}, "not the URL"},
		"password in the URL":  {[]string{"https://u:p@okara.example.com"}, "not the URL"},
		"bad origin":           {[]string{"--origin", "a/b"}, "--origin"},
		"bad registry":         {[]string{"https://okara.example.com", "--oci-mirror", "https://x"}, "--oci-mirror"},
		"no token":             {[]string{"--token-file", "-"}, "must contain a single token"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := runCommand(t.Context(), append([]string{"cli-config"}, tt.args...), strings.NewReader(""), &out, &errOut, func(string) string { return "" })
			if code != cli.ExitUsage || !strings.Contains(errOut.String(), tt.want) || out.Len() > 0 {
				t.Errorf("exit %d with %q and %q, want %d with %q", code, out.String(), errOut.String(), cli.ExitUsage, tt.want)
			}
		})
	}
}

// FuzzCLIConfig shows that for any server name the file is valid HCL or the command refuses.
func FuzzCLIConfig(f *testing.F) {
	f.Add("https://okara.example.com", "registry.opentofu.org", "reg.example.com/p")
	f.Add("http://127.0.0.1:1/a\"b", "x\ny", "${x}")
	f.Fuzz(func(t *testing.T, server, origin, mirror string) {
		u, err := parseServer(server)
		if err != nil {
			return
		}
		c := cliConfig{server: u, hostname: u.Host, origins: []string{origin}, ociMirror: mirror}
		text, err := c.render("token")
		if err != nil {
			return
		}
		if _, diags := hclparse.NewParser().ParseHCL([]byte(text), "x.tfrc"); diags.HasErrors() {
			t.Errorf("%v in\n%s", diags, text)
		}
	})
}
