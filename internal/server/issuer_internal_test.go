// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// TestFilesOfAnIssuer checks that files that are missing or invalid are reported at the
// line that names them.
//
// Shows: operator 4
func TestFilesOfAnIssuer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, []byte("{}"), 0o600))
	for _, tt := range []struct{ text, want string }{
		{fmt.Sprintf("jwks_file = %q", file), "okara.hcl:1: jwks_file: " + file + ": no public signing key"},
		{fmt.Sprintf("jwks_file = %q", file+".none"), "okara.hcl:1: jwks_file: open " + file + ".none"},
		{fmt.Sprintf("ca_file = %q", file), "okara.hcl:1: ca_file: "},
		{fmt.Sprintf("ca_file = %q\njwks_file = %q", file, file), "omit ca_file"},
	} {
		_, err := settingsOf(t, "issuer \"here\" {\naudiences = [\"okara\"]\n"+tt.text+"\n}").accessPolicy()
		if _, ok := errors.AsType[*syntax.SettingError](err); !ok || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// TestRuleOfAnUnknownIssuer: a rule that matches no token is reported at start.
func TestRuleOfAnUnknownIssuer(t *testing.T) {
	const rule = "\nrule \"net\" {\n  issuer = \"https://i.example.com\"\n  allow = [\"read:module:**\"]\n}\n"
	for text, want := range map[string]string{
		"issuer \"https://i.example.com/\" {\n  audiences = [\"okara\"]\n}":         "rule \"net\" is for tokens of https://i.example.com, which are not accepted",
		"issuer \"https://i.example.com\" {\n  audiences = [\"okara\"]\n}":          "",
		"login {\n  issuer = \"https://i.example.com\"\n  client_id = \"okara\"\n}": "",
	} {
		_, err := settingsOf(t, text+rule).accessPolicy()
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
