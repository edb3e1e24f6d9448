// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/seed-141914ff/okara/internal/archive"
)

// maxConfiguration bounds one file that is parsed.
const maxConfiguration = 4 << 20

// view shows the shipped configuration as terraform-config-inspect knows it:
// x.tofu appears as x.tf, and hides an x.tf, as in OpenTofu. It implements
// tfconfig.FS.
type view struct {
	tree  fs.FS
	files map[string]string   // shown path -> path in the tree
	dirs  map[string][]string // directory -> shown names of its configuration, sorted
	all   map[string]bool     // shipped paths
}

func newView(tree fs.FS, t *archive.Tree) *view {
	v := &view{tree: tree, files: map[string]string{}, dirs: map[string][]string{}, all: map[string]bool{}}
	for _, f := range t.Files {
		v.all[f.Path] = true
		if !IsConfiguration(f.Path) {
			continue
		}
		shown := f.Path
		for _, ext := range []string{".tofu", ".tofu.json"} {
			if base, ok := strings.CutSuffix(f.Path, ext); ok {
				shown = base + strings.Replace(ext, "tofu", "tf", 1)
			}
		}
		if _, ok := v.files[shown]; ok && shown == f.Path {
			continue // hidden by the .tofu file of the same name
		}
		if _, ok := v.files[shown]; !ok {
			v.dirs[path.Dir(shown)] = append(v.dirs[path.Dir(shown)], path.Base(shown))
		}
		v.files[shown] = f.Path
	}
	for _, names := range v.dirs {
		slices.Sort(names)
	}
	return v
}

func (v *view) Open(name string) (tfconfig.File, error) {
	real, ok := v.files[filepath.ToSlash(name)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return v.tree.Open(real)
}

func (v *view) ReadFile(name string) ([]byte, error) {
	real, ok := v.files[filepath.ToSlash(name)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	info, err := fs.Stat(v.tree, real)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxConfiguration {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", real, info.Size(), maxConfiguration)
	}
	return fs.ReadFile(v.tree, real)
}

func (v *view) ReadDir(dir string) ([]os.FileInfo, error) {
	names, ok := v.dirs[path.Clean(filepath.ToSlash(dir))]
	if !ok {
		return nil, fs.ErrNotExist
	}
	var infos []os.FileInfo
	for _, name := range names {
		infos = append(infos, shownFile(name))
	}
	return infos, nil
}

// shownFile is a FileInfo with a name only, which is all that is asked for.
type shownFile string

func (f shownFile) Name() string       { return string(f) }
func (f shownFile) Size() int64        { return 0 }
func (f shownFile) Mode() fs.FileMode  { return 0o644 }
func (f shownFile) ModTime() time.Time { return time.Time{} }
func (f shownFile) IsDir() bool        { return false }
func (f shownFile) Sys() any           { return nil }

// load reads the module in a directory.
func (v *view) load(dir string) (*tfconfig.Module, tfconfig.Diagnostics) {
	return tfconfig.LoadModuleFromFilesystem(v, path.Clean(dir))
}

// checkCalls refuses a local module source that leaves the package: it would
// point to nothing once the package is installed.
func (v *view) checkCalls() error {
	var errs []error
	for dir := range v.dirs {
		m, _ := v.load(dir)
		for _, call := range m.ModuleCalls {
			if !strings.HasPrefix(call.Source, "./") && !strings.HasPrefix(call.Source, "../") {
				continue
			}
			if target := path.Join(dir, call.Source); target == ".." || strings.HasPrefix(target, "../") {
				errs = append(errs, fmt.Errorf("%s:%d: module %q uses %s, which is %w", v.real(call.Pos.Filename), call.Pos.Line, call.Name, call.Source, ErrOutside))
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// real returns the path in the tree of a shown one, for messages.
func (v *view) real(shown string) string {
	if p, ok := v.files[filepath.ToSlash(shown)]; ok {
		return p
	}
	return filepath.ToSlash(shown)
}

// blocks calls f for each top-level block of the types in the files of dir.
// Files that do not parse are left out: tfconfig reports them.
func (v *view) blocks(dir string, schema *hcl.BodySchema, f func(file string, b *hcl.Block)) {
	parser := hclparse.NewParser()
	for _, name := range v.dirs[path.Clean(dir)] {
		shown := path.Join(dir, name)
		src, err := v.ReadFile(shown)
		if err != nil {
			continue
		}
		parse := parser.ParseHCL
		if strings.HasSuffix(name, ".json") {
			parse = parser.ParseJSON
		}
		file, _ := parse(src, shown)
		if file == nil {
			continue
		}
		content, _, _ := file.Body.PartialContent(schema)
		for _, b := range content.Blocks {
			f(v.real(shown), b)
		}
	}
}

// backend finds a backend or cloud block in the root module.
func (v *view) backend(dir string) (kind, at string) {
	terraform := &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "terraform"}}}
	inner := &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "backend", LabelNames: []string{"type"}}, {Type: "cloud"}}}
	v.blocks(dir, terraform, func(file string, b *hcl.Block) {
		content, _, _ := b.Body.PartialContent(inner)
		for _, found := range content.Blocks {
			if kind == "" {
				kind, at = found.Type, fmt.Sprintf("%s:%d", file, found.DefRange.Start.Line)
			}
		}
	})
	return kind, at
}
