// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/usage"
)

// marks are what the lists of versions that init read say against versions in the lock of modules; "": nothing.
type marks struct {
	mu sync.Mutex        // guards of
	of map[string]string // by source and version
}

// marksName is okara's file in the data directory.
const marksName = "okara-modules.json"

func (m *marks) add(source, version, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]string{}
	}
	m.of[source+" "+version] = text.Clip(text.Line(why), 200)
}

// save adds the marks to those of earlier inits, which read other lists.
func (m *marks) save(dataDir string) error {
	name := filepath.Join(dataDir, marksName)
	all := map[string]string{}
	if err := readJSON(name, &all); err != nil || len(m.of) == 0 {
		return err
	}
	changed := false
	for key, why := range m.of {
		if changed = changed || all[key] != why; why == "" {
			delete(all, key)
		} else {
			all[key] = why
		}
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil || !changed {
		return err
	}
	return files.Replace(name, append(b, '\n'), 0o600)
}

// findMarked returns a line about modules in use that init read something against, "" if there are none.
func findMarked(dataDir string, record func(state, before []byte) []byte) string {
	all := map[string]string{}
	if err := readJSON(filepath.Join(dataDir, marksName), &all); err != nil || len(all) == 0 {
		return ""
	}
	d, err := usage.Parse(record(nil, nil))
	if err != nil {
		return ""
	}
	said := ""
	more := 0
	for _, m := range d.Modules {
		source, _, _ := strings.Cut(m.Source, "//")
		switch why := all[source+" "+m.Version]; {
		case why == "":
		case said == "":
			said = fmt.Sprintf("module %s %s is %s", source, m.Version, text.Line(why))
		default:
			more++
		}
	}
	if more > 0 {
		said += fmt.Sprintf("; and %d more", more)
	}
	return said
}
