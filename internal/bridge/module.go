// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/syntax"
)

// module is the part of a root module that okara reads.
type module struct {
	backend *hcl.Block // the effective one, nil unless it is of type "oci"
	remote  []*hcl.Block
	sources map[string][]byte // file name to content

	primary, override []string // files, in the order in which they are read
}

// maxConfigFile bounds one configuration file; the tools set no limit.
const maxConfigFile = 16 << 20

// loadModule reads dir as the tools do: overrides last, with tofu .tofu in place of .tf. A file
// with a syntax error is read as far as it goes, an error only if no backend was found: the tool's
// message is better.
func loadModule(dir string, tofu bool) (module, error) {
	m := module{sources: make(map[string][]byte)}
	primary, override, err := configFiles(dir, tofu)
	if err != nil {
		return m, err
	}
	ours := filepath.Join(dir, overrideName) // a killed run may have left it
	override = slices.DeleteFunc(override, func(path string) bool { return path == ours })
	m.primary = primary
	m.override = override
	var problems hcl.Diagnostics
	for i, path := range append(slices.Clone(primary), override...) {
		body, diags := m.parse(path)
		problems = append(problems, diags...)
		if body == nil {
			continue
		}
		if err := m.addBlocksOf(body, path, i >= len(primary)); err != nil {
			return m, err
		}
	}
	if m.backend == nil {
		return m, diagnosticsError(problems)
	}
	return m, nil
}

func (m *module) parse(path string) (hcl.Body, hcl.Diagnostics) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxConfigFile {
		err = fmt.Errorf("larger than %d bytes", maxConfigFile)
	}
	var src []byte
	if err == nil {
		src, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Reading " + path, Detail: err.Error()}}
	}
	m.sources[path] = src
	file, diags := syntax.Parse(src, path)
	if file == nil {
		return nil, diags
	}
	return file.Body, diags
}

// addBlocksOf looks for okara's blocks in a file; one in an override replaces earlier ones.
func (m *module) addBlocksOf(body hcl.Body, path string, override bool) error {
	content, _, _ := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "terraform"}, {Type: "data", LabelNames: []string{"type", "name"}},
	}})
	for _, b := range content.Blocks {
		if b.Type == "data" {
			if b.Labels[0] == "terraform_remote_state" {
				m.remote = append(m.remote, b)
			}
			continue
		}
		inner, _, _ := b.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
			{Type: "backend", LabelNames: []string{"type"}}, {Type: "cloud"},
		}})
		for _, backend := range inner.Blocks {
			m.backend = nil
			if backend.Type != "backend" || backend.Labels[0] != backendType {
				continue
			}
			m.backend = backend
			if override && overrideName < filepath.Base(path) {
				return atPosition(backend.DefRange, fmt.Errorf("this override file is read after %s, which would have no effect\nhint: give it a name that sorts before %s", overrideName, overrideName))
			}
		}
	}
	return nil
}

// backendType is the label that okara replaces.
const backendType = "oci"

// configFiles lists the configuration files of a directory, including okara's.
func configFiles(dir string, tofu bool) (primary, override []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the root module: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && !isIgnored(e.Name()) {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		base, ok := configName(name, tofu)
		if !ok || tofu && isShadowed(name, names) {
			continue
		}
		path := filepath.Join(dir, name)
		if base == "override" || strings.HasSuffix(base, "_override") {
			override = append(override, path)
		} else {
			primary = append(primary, path)
		}
	}
	return primary, override, nil
}

// configName returns the name without the extension of a configuration file.
func configName(name string, tofu bool) (base string, ok bool) {
	extensions := []string{".tf", ".tf.json"}
	if tofu {
		extensions = append(extensions, ".tofu", ".tofu.json")
	}
	for _, e := range extensions {
		if base, ok = strings.CutSuffix(name, e); ok {
			return base, true
		}
	}
	return "", false
}

// isShadowed reports whether a .tf file has a .tofu file of the same name.
func isShadowed(name string, names []string) bool {
	for _, e := range []string{".tf", ".tf.json"} {
		if base, ok := strings.CutSuffix(name, e); ok {
			return slices.Contains(names, base+strings.Replace(e, ".tf", ".tofu", 1))
		}
	}
	return false
}

// isIgnored matches the names of editors' files and hidden files.
func isIgnored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") ||
		strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}
