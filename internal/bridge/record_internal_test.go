// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestAllowMetadata corrects the record of an older okara, and changes nothing else in it.
//
// Shows: mistakes 37
func TestAllowMetadata(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, toolRecordName)
	for was, want := range map[string]string{
		`{"backend":{"config":{"skip_metadata_api_check": true,"key":"a"},"hash":1}}`: `{"backend":{"config":{"skip_metadata_api_check": null,"key":"a"},"hash":1}}`,
		`{"backend":{"config":{"skip_metadata_api_check":true}}}`:                     `{"backend":{"config":{"skip_metadata_api_check": null}}}`,
		`{"backend":{"config":{"skip_metadata_api_check": null}}}`:                    `{"backend":{"config":{"skip_metadata_api_check": null}}}`,
		`{"backend":{"config":{"key":"\"skip_metadata_api_check\": true"}}}`:          `{"backend":{"config":{"key":"\"skip_metadata_api_check\": true"}}}`,
	} {
		must.Succeed(t, os.WriteFile(path, []byte(was), 0o600))
		must.Succeed(t, allowMetadata(dir))
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s became %s, want %s, %v", was, got, want, err)
		}
	}
}
