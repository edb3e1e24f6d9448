// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/oci"
)

// FuzzParseDocker: no error has a value; keys are for their host.
func FuzzParseDocker(f *testing.F) {
	f.Add([]byte(`{"auths": {"ghcr.io": {"auth": "b2N0b2NhdDpzM2NyM3Q="}}, "credHelpers": {"x": "y"}, "credsStore": "z"}`), false)
	f.Add([]byte(`{"https://index.docker.io/v1/": {"auth": "dTpw"}}`), true)
	f.Add([]byte(`{"auths": {"a/b": {"identitytoken": "t"}, "": {"auth": "dTpw"}, "c": null, "d": {"password": 123456}}}`), false)
	f.Fuzz(func(t *testing.T, b []byte, legacy bool) {
		helpers, static, err := parseDocker(b, legacy)
		for _, e := range static {
			if e.cred == (oci.Credential{}) || e.key.host == "" || e.helper != "" {
				t.Errorf("static entry %+v", e)
			}
		}
		for _, e := range helpers {
			if e.helper == "" || e.cred != (oci.Credential{}) {
				t.Errorf("helper entry %+v", e)
			}
		}
		if err != nil && strings.Contains(err.Error(), "123456") {
			t.Errorf("the error shows a value: %v", err)
		}
	})
}

func FuzzParseCLIConfig(f *testing.F) {
	f.Add([]byte(`oci_credentials "a.b/c" {
  username = "u"
  password = "p"
}
credentials "a.b" { token = "t" }
oci_default_credentials { docker_style_config_files = ["x"] }`))
	f.Add([]byte(`{"credentials": {"a.b": {"token": "t"}}, "oci_credentials": {"a": {"access_token": "t"}}}`))
	f.Add([]byte("provider_installation {\n  direct {}\n}\nhost \"x\" { services = { a = \"b\" } }"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, _, _ := parseCLIConfig(b, "/dir") // an error is acceptable, a panic is not
		for _, e := range entries {
			if (e.helper == "") == (e.cred == oci.Credential{}) {
				t.Errorf("entry with both or neither: %+v", e)
			}
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add("ghcr.io/acme", "ghcr.io", "acme/net")
	f.Add("https://index.docker.io/v1/", "docker.io", "library/x")
	f.Fuzz(func(t *testing.T, s, host, repository string) {
		k, to := parseKey(s), newTarget(host, repository)
		if m := k.matchTarget(to); m >= matchHost && (k.host != to.host || k.path != "" && !strings.HasPrefix(to.path+"/", k.path+"/")) {
			t.Errorf("%q matches %s", s, to)
		}
	})
}
