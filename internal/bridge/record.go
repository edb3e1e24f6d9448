// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

// record is what an earlier init left in the tool's data directory.
type record struct {
	repository string    // of the backend that the tool has recorded, if okara made that
	settings   []Setting // of -backend-config
}

// toolRecordName is the file in which the tool records its backend.
const toolRecordName = "terraform.tfstate"

// recordName is okara's file in the data directory: what tools record of partial configuration is
// only what their backend sees.
const recordName = "okara-backend.json"

// maxRecord bounds both files; the tool's may have records of very old versions.
const maxRecord = 1 << 20

func readRecord(dataDir string) (record, error) {
	var rec record
	var tool struct {
		Backend struct {
			Type   string `json:"type"`
			Config struct {
				Bucket  string `json:"bucket"`
				Key     string `json:"key"`
				Profile string `json:"profile"`
			} `json:"config"`
		} `json:"backend"`
	}
	if err := readJSON(filepath.Join(dataDir, toolRecordName), &tool); err != nil {
		return rec, err
	}
	b := tool.Backend
	if b.Type == "s3" && b.Config.Bucket == s3facade.Bucket && b.Config.Profile == profile {
		rec.repository, _ = s3facade.RepositoryOf(b.Config.Key)
	}
	if err := readJSON(filepath.Join(dataDir, recordName), &rec.settings); err != nil {
		return rec, err
	}
	for i := range rec.settings {
		rec.settings[i].Source = filepath.Join(dataDir, recordName)
	}
	return rec, nil
}

// saveSettings stores the settings of a successful `init -backend-config` for later.
func saveSettings(dir string, getenv func(string) string, settings []Setting) error {
	path := filepath.Join(backendblock.DataDir(dir, getenv), recordName)
	if len(settings) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("deleting stored backend settings: %w", err)
		}
		return nil
	}
	b, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return fmt.Errorf("storing backend settings: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("storing backend settings: %w", err)
	}
	if err := files.Replace(path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("storing backend settings: %w", err)
	}
	return nil
}

// metadataCheckRE finds the argument that an older okara gave the backend.
var metadataCheckRE = text.Pattern(`"skip_metadata_api_check":\s*true\b`)

// allowMetadata removes from an older okara's record the argument about instance roles, so that the
// tool sees no difference. The record is okara's.
func allowMetadata(dataDir string) error {
	path := filepath.Join(dataDir, toolRecordName)
	was, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the backend of the last init: %w", err)
	}
	now := metadataCheckRE().ReplaceAll(was, []byte(`"skip_metadata_api_check": null`))
	if bytes.Equal(was, now) {
		return nil
	}
	if err := files.Replace(path, now, 0o644); err != nil {
		return fmt.Errorf("correcting the backend of the last init: %w\nhint: okara must be able to write to that directory once, or run init -reconfigure", err)
	}
	return nil
}

// readJSON decodes a file into v; a missing file leaves v unchanged.
func readJSON(path string, v any) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Size() > maxRecord {
		err = fmt.Errorf("larger than %d bytes", maxRecord)
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err == nil && len(b) > 0 {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
