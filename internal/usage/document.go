// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/text"
)

// Whether all that a state was made of is in its document.
const (
	Complete = "complete"
	Partial  = "partial"
)

const schemaVersion = 1

// Bounds of a document. What exceeds them is cut or left out, and the document is partial then.
const (
	maxDocument = 96 << 10 // bytes
	maxItems    = 1000     // modules, and providers
	maxPaths    = 200      // of one module
	maxSource   = 300      // bytes, of a source or a path
	maxText     = 128      // bytes, of a version, a digest or a tool
)

// Document is what a version of a state was made of.
type Document struct {
	SchemaVersion int        `json:"schemaVersion"`
	Recorded      string     `json:"recorded"`             // Complete or Partial
	Repository    string     `json:"repository,omitempty"` // of the configuration, as CI names it
	Commit        string     `json:"commit,omitempty"`
	Modules       []Module   `json:"modules,omitempty"`
	Providers     []Provider `json:"providers,omitempty"`
}

// Module is a source with the version that was selected.
type Module struct {
	Source  string    `json:"source"` // HOST/NAMESPACE/NAME/SYSTEM, an address such as oci:// or git::, or ./FOLDER
	Version string    `json:"version,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	Paths   []string  `json:"paths,omitempty"` // in the tree of calls, such as network.subnets
	Since   time.Time `json:"since,omitzero"`  // of the first version of the state in a row that has it
}

// Provider is a provider with the version in the lock file.
type Provider struct {
	Source      string    `json:"source"` // HOST/NAMESPACE/TYPE
	Version     string    `json:"version,omitempty"`
	Constraints string    `json:"constraints,omitempty"`
	Hash        string    `json:"hash,omitempty"` // one of the lock file's, h1 if there is one
	Since       time.Time `json:"since,omitzero"`
}

// Parse reads a stored document, which any client may have written.
func Parse(document []byte) (*Document, error) {
	if len(document) > maxDocument {
		return nil, fmt.Errorf("the usage has %d bytes, the limit is %d", len(document), maxDocument)
	}
	var d Document
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, fmt.Errorf("the usage: %w", err)
	}
	if d.SchemaVersion != schemaVersion {
		return nil, fmt.Errorf("usage version %d is not supported, expected %d", d.SchemaVersion, schemaVersion)
	}
	d.boundTexts()
	return &d, nil
}

// Encode encodes the document, without paths, then without hashes, if it is too large.
func (d *Document) Encode() []byte {
	d.SchemaVersion = schemaVersion
	d.boundTexts()
	for step := 0; ; step++ {
		b, err := json.Marshal(d)
		if err == nil && len(b) <= maxDocument {
			return b
		}
		d.Recorded = Partial
		switch step {
		case 0:
			for i := range d.Modules {
				d.Modules[i].Paths = nil
			}
		case 1:
			for i := range d.Providers {
				d.Providers[i].Hash = ""
			}
		default:
			d.Modules = d.Modules[:len(d.Modules)/2]
			d.Providers = d.Providers[:len(d.Providers)/2]
		}
		if err != nil || step > 20 {
			return nil
		}
	}
}

// boundTexts bounds a document, sorts it and drops entries without a usable source.
func (d *Document) boundTexts() {
	if d.Recorded != Complete {
		d.Recorded = Partial
	}
	d.Repository = cutText(d.Repository, maxSource)
	d.Commit = cutText(d.Commit, maxText)
	d.Modules = d.trimModules()
	d.Providers = slices.DeleteFunc(d.Providers, func(p Provider) bool {
		_, err := addr.ParseProvider(p.Source)
		return err != nil || len(p.Source) > maxSource
	})
	for i := range d.Providers {
		p := &d.Providers[i]
		p.Version = cutText(p.Version, maxText)
		p.Constraints = cutText(p.Constraints, maxSource)
		p.Hash = cutText(p.Hash, maxText)
	}
	slices.SortFunc(d.Providers, func(a, b Provider) int { return cmp.Compare(a.Source, b.Source) })
	if len(d.Providers) > maxItems {
		d.Providers = d.Providers[:maxItems]
		d.Recorded = Partial
	}
}

// trimModules merges calls of the same source and version.
func (d *Document) trimModules() []Module {
	type version struct{ source, version, digest string }
	at := map[version]int{}
	var all []Module
	for _, m := range d.Modules {
		source, digest := cleanSource(m.Source)
		if source == "" {
			d.Recorded = Partial
			continue
		}
		m.Source = source
		m.Digest = cutText(cmp.Or(m.Digest, digest), maxText)
		m.Version = cutText(m.Version, maxText)
		key := version{m.Source, m.Version, m.Digest}
		i, known := at[key]
		switch {
		case known:
			all[i].Paths = append(all[i].Paths, m.Paths...)
			continue
		case len(all) == maxItems:
			d.Recorded = Partial
			continue
		}
		at[key] = len(all)
		all = append(all, m)
	}
	for i := range all {
		paths := slices.Clone(all[i].Paths)
		for k, p := range paths {
			paths[k] = cutText(p, maxSource)
		}
		slices.Sort(paths)
		if paths = slices.Compact(paths); len(paths) > maxPaths {
			paths = paths[:maxPaths]
			d.Recorded = Partial
		}
		all[i].Paths = paths
	}
	slices.SortStableFunc(all, func(a, b Module) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Digest, b.Digest))
	})
	return all
}

func cutText(s string, n int) string { return search.Cut(text.Line(search.Cut(s, n)), n) }

// KeepSince takes over from the document before since when a module or provider is in use; what is
// new is in use from now on.
func (d *Document) KeepSince(before *Document, now time.Time) {
	since := map[[2]string]time.Time{} // a lock adds a digest
	if before != nil {
		for _, m := range before.Modules {
			key := [2]string{m.Source, m.Version}
			if t, known := since[key]; !known || m.Since.Before(t) {
				since[key] = m.Since
			}
		}
		for _, p := range before.Providers {
			since[[2]string{p.Source, p.Version}] = p.Since
		}
	}
	first := func(t time.Time) time.Time {
		if t.IsZero() || t.After(now) {
			return now.UTC().Truncate(time.Second)
		}
		return t
	}
	for i, m := range d.Modules {
		d.Modules[i].Since = first(since[[2]string{m.Source, m.Version}])
	}
	for i, p := range d.Providers {
		d.Providers[i].Since = first(since[[2]string{p.Source, p.Version}])
	}
}

// Address returns the address of a module's source without host and folder, NAMESPACE/NAME/SYSTEM,
// also of an oci:// source in okara's layout; "" if it has none.
func (m *Module) Address() string { return moduleAddress(m.Source) }

func moduleAddress(source string) string {
	remote := source
	if scheme, rest, ok := strings.Cut(source, "://"); ok {
		if scheme != "oci" {
			return ""
		}
		remote = rest
	}
	remote, _, _ = strings.Cut(remote, "?")
	remote, _, _ = strings.Cut(remote, "//")
	parts := strings.Split(remote, "/")
	if len(parts) < 3 || parts[0] == "." {
		return ""
	}
	module, err := addr.ParseModule(strings.Join(parts[len(parts)-3:], "/"))
	if err != nil || remote == source && len(parts) > 4 {
		return ""
	}
	return module.String()
}
