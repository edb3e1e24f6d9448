// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestPrepareHeld(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string // in the error; "": none
	}{
		{"plain", map[string]string{"main.tf": `output "a" { value = 1 }`}, ""},
		{"own backend", map[string]string{"main.tf": "terraform {\n backend \"local\" {}\n}"}, ""},
		{"an override before ours", map[string]string{"a_override.tf": "terraform {\n backend \"local\" {}\n}"}, ""},
		{"an override after ours", map[string]string{"z_override.tf": "terraform {\n backend \"local\" {}\n}"}, "z_override.tf:2"},
		{"the override", map[string]string{"override.tf": "terraform {\n backend \"local\" {}\n}"}, "override.tf:2"},
		{"ours, planted", map[string]string{"okara_override.tofu": "terraform {\n backend \"local\" {}\n}", "okara_override.tf": "nonsense", "okara_override.tf.json": "{"}, ""},
		{"encryption", map[string]string{"main.tf": "terraform {\n encryption {}\n}"}, `main.tf:2: block "encryption" is not allowed in the root module of an instance`},
		{"encryption, only for tofu", map[string]string{"main.tf": "", "main.tofu": "terraform {\n encryption {}\n}"}, "main.tofu:2"},
		{"encryption, only for terraform", map[string]string{"main.tf": "terraform {\n encryption {}\n}", "main.tofu": ""}, "main.tf:2"},
		{"cloud in JSON", map[string]string{"main.tf.json": `{"terraform":{"cloud":{}}}`}, `"cloud"`},
		{"not to be read", map[string]string{"main.tf": "terraform {"}, "main.tf"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			err := bridge.PrepareHeld(dir, "registry.example.com/instances/a")
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), dir) {
					t.Fatalf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			ours, err := filepath.Glob(filepath.Join(dir, "okara_override*"))
			if err != nil || len(ours) != 1 || filepath.Base(ours[0]) != "okara_override.tf" {
				t.Errorf("override files %v, %v", ours, err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "okara_override.tf"))
			if err != nil || !strings.Contains(string(text), `key                         = "registry.example.com/instances/a/state"`) {
				t.Errorf("override %s, %v", text, err)
			}
		})
	}
}
