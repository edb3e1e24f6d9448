// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesOfAnIssuer: files that are missing or broken are told where they are named.
func TestFilesOfAnIssuer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ text, want string }{
		{fmt.Sprintf("jwks_file = %q", file), "okara.hcl:1: jwks_file: " + file + ": no public key"},
		{fmt.Sprintf("jwks_file = %q", file+".none"), "okara.hcl:1: jwks_file: open " + file + ".none"},
		{fmt.Sprintf("ca_file = %q", file), "okara.hcl:1: ca_file: "},
		{fmt.Sprintf("ca_file = %q\njwks_file = %q", file, file), "leave ca_file out"},
	} {
		_, err := settingsOf(t, "issuer \"here\" {\naudiences = [\"okara\"]\n"+tt.text+"\n}").access()
		if _, ok := errors.AsType[*SettingError](err); !ok || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}
