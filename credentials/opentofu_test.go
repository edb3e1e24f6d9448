// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"testing"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// rc is a CLI configuration with one block for registry.example.com.
func rc(user string) string {
	return "oci_credentials \"registry.example.com\" {\n  username = \"" + user + "\"\n  password = \"x\"\n}\n"
}

func TestCLIConfigPlaces(t *testing.T) {
	tests := []struct {
		name, goos string
		files      []string
		env        map[string]string
		want       string
	}{
		{"tofurc", "linux", []string{"home/.tofurc", "home/.terraformrc"}, nil, "home/.tofurc"},
		{"terraformrc", "linux", []string{"home/.terraformrc"}, nil, "home/.terraformrc"},
		{"XDG", "linux", []string{"xdg/opentofu/tofurc"}, map[string]string{"XDG_CONFIG_HOME": "xdg"}, "xdg/opentofu/tofurc"},
		{"XDG loses to an old file", "linux", []string{"home/.terraformrc", "xdg/opentofu/tofurc"}, map[string]string{"XDG_CONFIG_HOME": "xdg"}, "home/.terraformrc"},
		{"folder", "linux", []string{"home/.terraform.d/a.tfrc"}, nil, "home/.terraform.d/a.tfrc"},
		{"XDG folder", "linux", []string{"xdg/opentofu/a.tfrc"}, map[string]string{"XDG_CONFIG_HOME": "xdg"}, "xdg/opentofu/a.tfrc"},
		{"folder without the suffix", "linux", []string{"home/.terraform.d/a.rc"}, nil, ""},
		{"variable", "linux", []string{"my.tfrc", "home/.tofurc", "home/.terraform.d/a.tfrc"}, map[string]string{"TF_CLI_CONFIG_FILE": "my.tfrc"}, "my.tfrc"},
		{"variable switches the rest off", "linux", []string{"home/.tofurc", "home/.terraform.d/a.tfrc"}, map[string]string{"TF_CLI_CONFIG_FILE": "missing"}, ""},
		{"old variable", "linux", []string{"my.tfrc"}, map[string]string{"TERRAFORM_CONFIG": "my.tfrc"}, "my.tfrc"},
		{"macOS", "darwin", []string{"home/.tofurc"}, nil, "home/.tofurc"},
		{"Windows", "windows", []string{"home/AppData/Roaming/tofu.rc", "home/AppData/Roaming/terraform.rc"}, nil, "home/AppData/Roaming/tofu.rc"},
		{"Windows, Terraform", "windows", []string{"home/AppData/Roaming/terraform.rc"}, nil, "home/AppData/Roaming/terraform.rc"},
		{"Windows, folder", "windows", []string{"home/AppData/Roaming/terraform.d/a.tfrc"}, nil, "home/AppData/Roaming/terraform.d/a.tfrc"},
		{"Windows has no dot files", "windows", []string{"home/.tofurc"}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, tt.goos)
			for name, value := range tt.env {
				m.env[name] = m.path(value)
			}
			for _, f := range tt.files {
				m.file(f, rc(f))
			}
			must.Equal(t, "value", mustCredential(t, m.resolver(), "registry.example.com", "a").Username, tt.want)
		})
	}
}

func TestCLIConfigBlocks(t *testing.T) {
	tests := []struct {
		name, config, host, repository string
		want                           oci.Credential
	}{
		{"credentials", `credentials "a.example.com" { token = "tok" }`, "a.example.com", "x", oci.Credential{RegistryToken: "tok"}},
		{"tofu login", `{"credentials": {"a.example.com": {"token": "tok"}}}`, "a.example.com", "x", oci.Credential{RegistryToken: "tok"}},
		{"pass-through token", `credentials "a.example.com" { token = "basic.dTpwOnc" }`, "a.example.com", "x", basic("u", "p:w")},
		{"other scheme", `credentials "a.example.com" { key = "tok" }`, "a.example.com", "x", oci.Credential{}},
		{"JSON block", `{"oci_credentials": {"a.example.com/b": {"username": "u", "password": "p"}}}`, "a.example.com", "b/c", basic("u", "p")},
		{"two blocks", rc("host") + `oci_credentials "registry.example.com/a" {
			access_token = "a"
			refresh_token = "r"
		}`, "registry.example.com", "a", oci.Credential{RegistryToken: "a", IdentityToken: "r"}},
		{"HCL 1 only", `provider_installation { direct { exclude = ["a/b"] } } # comment
			oci_credentials "a.example.com" { username = "u" password = "${p}" }`, "a.example.com", "x", basic("u", "${p}")},
		{"helper", `oci_credentials "a.example.com" { docker_credentials_helper = "h" }`, "a.example.com", "x", basic("helped", "x")},
		{"default helper", `oci_default_credentials { docker_credentials_helper = "h" }`, "a.example.com", "x", basic("helped", "x")},
		{"no ambient", `oci_default_credentials { discover_ambient_credentials = false }`, "ambient.example.com", "x", oci.Credential{}},
		{"no ambient environment", `oci_default_credentials { discover_ambient_credentials = false }`, "ghcr.io", "x", oci.Credential{}},
		{"ambient environment", ``, "ghcr.io", "x", basic("octocat", "gh")},
		{"ambient", ``, "ambient.example.com", "x", basic("ambient", "x")},
		{"files", `oci_default_credentials { docker_style_config_files = ["mine.json"] }`, "mine.example.com", "x", basic("mine", "x")},
		{"files replace", `oci_default_credentials { docker_style_config_files = ["mine.json"] }`, "ambient.example.com", "x", oci.Credential{}},
		{"no files", `oci_default_credentials { docker_style_config_files = [] }`, "ambient.example.com", "x", oci.Credential{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, "linux")
			m.setenv(map[string]string{"GITHUB_TOKEN": "gh", "GITHUB_ACTOR": "octocat"})
			m.file("home/.docker/config.json", auths("ambient.example.com", "ambient:x"))
			m.file("home/mine.json", auths("mine.example.com", "mine:x"))
			m.helper("h", helperScript{Answers: map[string][2]string{"a.example.com": {"helped", "x"}}})
			m.file("home/.tofurc", tt.config)
			must.Equal(t, "value", mustCredential(t, m.resolver(), tt.host, tt.repository), tt.want)
			if m.log.Len() > 0 {
				t.Errorf("unexpected warnings: %s", m.log.String())
			}
		})
	}
}

func TestTokenVariables(t *testing.T) {
	for _, name := range []string{
		"TF_TOKEN_my__registry_example_com", "TF_TOKEN_my-registry_example_com",
		"TF_TOKEN_my-registry.example.com", "TF_TOKEN_my__registry.example.com",
	} {
		m := newMachine(t, "linux")
		m.env[name] = "tok"
		if got, want := mustCredential(t, m.resolver(), "my-registry.example.com", "a"), (oci.Credential{RegistryToken: "tok"}); got != want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestServiceToken: a service's token, never a registry's credential.
func TestServiceToken(t *testing.T) {
	tests := []struct {
		name, variable, config, want string
	}{
		{"none", "", "", ""},
		{"tofu login", "", `{"credentials": {"OKARA.example.com": {"token": "tok"}}}`, "tok"},
		{"variable first", "var", `{"credentials": {"okara.example.com": {"token": "tok"}}}`, "var"},
		{"pass-through", "", `{"credentials": {"okara.example.com": {"token": "basic.dTpwOnc"}}}`, "basic.dTpwOnc"},
		{"another host", "", `{"credentials": {"other.example.com": {"token": "tok"}}}`, ""},
		{"for a registry", "", `{"oci_credentials": {"okara.example.com": {"username": "u", "password": "p"}}}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, "linux")
			m.env["TF_TOKEN_okara_example_com"] = tt.variable
			m.file("home/.docker/config.json", auths("okara.example.com", "u:p"))
			if tt.config != "" {
				m.file("home/.terraform.d/credentials.tfrc.json", tt.config)
			}
			must.Equal(t, "value", m.resolver().ServiceToken("okara.example.com"), tt.want)
		})
	}
}

func TestTokenRoundTrip(t *testing.T) {
	for _, c := range []oci.Credential{
		basic("user", "pass:word"), basic("üser", "p/w?+"), {IdentityToken: "id.en.tity"}, {RegistryToken: "raw"},
	} {
		must.Equal(t, "value", credentials.DecodeToken(credentials.EncodeToken(c)), c)
	}
	for _, s := range []string{"basic.", "basic.!!", "identity.!", "oks_a_b", "basic.dQ"} {
		if got, want := credentials.DecodeToken(s), (oci.Credential{RegistryToken: s}); got != want {
			t.Errorf("%q: got %+v, want %+v", s, got, want)
		}
	}
}
