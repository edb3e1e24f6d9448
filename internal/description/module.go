// SPDX-License-Identifier: Apache-2.0

package description

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// ErrNoModule means that a directory has no file that tofu or terraform would
// read.
var ErrNoModule = errors.New("no .tf, .tf.json, .tofu or .tofu.json file")

// ErrOutside means that a module calls another one that is outside of the
// package, and ErrAbsent that it calls one that is not in it.
var (
	ErrOutside = archive.ErrOutside
	ErrAbsent  = errors.New("not in the package")
)

// maxConfiguration bounds one parsed file, in bytes.
const maxConfiguration = 4 << 20

// Module presents the shipped configuration to terraform-config-inspect: x.tofu
// appears as x.tf, and hides an x.tf, as in OpenTofu. It implements
// tfconfig.FS. Files that exceed a bound of [syntax] are refused at once; a
// file that is too large, or invalid JSON, cannot be opened, which the
// description reports.
type Module struct {
	tree  fs.FS
	files map[string]string   // presented path -> path in the tree
	dirs  map[string][]string // directory -> presented names of its configuration, sorted
	all   map[string]bool     // shipped paths
}

func NewModule(tree fs.FS, t *archive.Tree) (*Module, error) {
	v := &Module{tree: tree, files: map[string]string{}, dirs: map[string][]string{}, all: map[string]bool{}}
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
	return v, v.check()
}

// check refuses files whose processing would crash this process or take hours.
func (v *Module) check() error {
	var errs []error
	for _, shown := range slices.Sorted(maps.Keys(v.files)) {
		src, err := v.ReadFile(shown)
		if err == nil {
			err = checkEvaluated(src, v.real(shown))
		}
		if errors.Is(err, syntax.ErrTooComplex) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkEvaluated bounds the work of the values that terraform-config-inspect
// evaluates.
func checkEvaluated(src []byte, name string) error {
	file, _ := syntax.Parse(src, name)
	if file == nil {
		return nil
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil
	}
	for _, b := range body.Blocks {
		bodies := []*hclsyntax.Block{b}
		if b.Type == "terraform" {
			bodies = append(bodies, b.Body.Blocks...)
		}
		for _, in := range bodies {
			for _, a := range in.Body.Attributes {
				if evaluated(b.Type, a.Name) {
					if err := syntax.CheckValue(a.Expr); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// evaluated reports whether an argument is evaluated for the description of a
// module.
func evaluated(block, argument string) bool {
	switch block {
	case "variable", "terraform":
		return true
	case "output":
		return argument != "value"
	}
	return slices.Contains([]string{"provider", "source", "version", "alias"}, argument)
}

func (v *Module) Open(name string) (tfconfig.File, error) {
	real, ok := v.files[filepath.ToSlash(name)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return v.tree.Open(real)
}

func (v *Module) ReadFile(name string) ([]byte, error) {
	src, err := v.read(name)
	if err != nil {
		return nil, err
	}
	return syntax.Source(src, v.real(name))
}

// read returns the unchanged content of a file.
func (v *Module) read(name string) ([]byte, error) {
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

func (v *Module) ReadDir(dir string) ([]os.FileInfo, error) {
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

// shownFile is a FileInfo with only a name, because nothing else is used.
type shownFile string

func (f shownFile) Name() string       { return string(f) }
func (f shownFile) Size() int64        { return 0 }
func (f shownFile) Mode() fs.FileMode  { return 0o644 }
func (f shownFile) ModTime() time.Time { return time.Time{} }
func (f shownFile) IsDir() bool        { return false }
func (f shownFile) Sys() any           { return nil }

// load reads the module in a directory. It recovers from a panic of the
// library, which is caused by a default that is too large for a float64.
func (v *Module) load(dir string) (m *tfconfig.Module, diags tfconfig.Diagnostics) {
	defer func() {
		if p := recover(); p != nil {
			m = tfconfig.NewModule(dir)
			diags = tfconfig.Diagnostics{{Severity: tfconfig.DiagError, Summary: fmt.Sprintf("Cannot be described: %v", p)}}
		}
	}()
	return tfconfig.LoadModuleFromFilesystem(&onePass{Module: v}, path.Clean(dir))
}

// onePass can be listed only once. Otherwise the library would read files with
// syntax errors a second time, by the rules of HCL before Terraform 0.12 and
// with an unbounded parser; without it, the library returns its first result.
type onePass struct {
	*Module
	listed bool
}

func (v *onePass) ReadDir(dir string) ([]os.FileInfo, error) {
	if v.listed {
		return nil, fs.ErrPermission
	}
	v.listed = true
	return v.Module.ReadDir(dir)
}

// BrokenCall is a call of a local module that will not exist when the package
// is installed.
type BrokenCall struct {
	Err     error // with file and line; wraps ErrOutside or ErrAbsent
	Reached bool  // by users of the module in the root or of one in modules/*
}

// BrokenCalls returns the broken calls of the package, whose root module is in
// dir, sorted by file.
func (v *Module) BrokenCalls(dir string) []BrokenCall {
	reached := v.reached(path.Clean(dir))
	var broken []BrokenCall
	for at := range v.dirs {
		m, _ := v.load(at)
		for _, call := range m.ModuleCalls {
			target, local := localCall(at, call.Source)
			if _, ok := v.dirs[target]; ok || !local {
				continue
			}
			why := ErrAbsent
			if !fs.ValidPath(target) {
				why = ErrOutside
			}
			broken = append(broken, BrokenCall{
				fmt.Errorf("%s:%d: module %q uses %s, which is %w", v.real(call.Pos.Filename), call.Pos.Line, call.Name, call.Source, why), reached[at],
			})
		}
	}
	slices.SortFunc(broken, func(a, b BrokenCall) int { return strings.Compare(a.Err.Error(), b.Err.Error()) })
	return broken
}

// localCall returns the directory of a local module that is called in dir.
func localCall(dir, source string) (target string, local bool) {
	local = strings.HasPrefix(source, "./") || strings.HasPrefix(source, "../")
	return path.Join(dir, source), local
}

// reached returns the directories that users of a package reach: the root
// module, the modules beside it and in the package's own folder modules, and
// what these call.
func (v *Module) reached(root string) map[string]bool {
	seen := map[string]bool{}
	queue := []string{root}
	for dir := range v.dirs {
		if above := path.Dir(dir); above == path.Join(root, "modules") || above == "modules" {
			queue = append(queue, dir)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		if seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		m, _ := v.load(queue[0])
		for _, call := range m.ModuleCalls {
			if target, local := localCall(queue[0], call.Source); local {
				queue = append(queue, target)
			}
		}
	}
	return seen
}

// real returns the path in the tree for a presented path, for messages.
func (v *Module) real(shown string) string {
	if p, ok := v.files[filepath.ToSlash(shown)]; ok {
		return p
	}
	return filepath.ToSlash(shown)
}

// blocks calls f for each top-level block of the types in the files of dir.
// src is the text of the file. Files with syntax errors are skipped, because tfconfig reports them.
func (v *Module) blocks(dir string, schema *hcl.BodySchema, f func(file string, src []byte, b *hcl.Block)) {
	for _, name := range v.dirs[path.Clean(dir)] {
		shown := path.Join(dir, name)
		src, err := v.ReadFile(shown)
		if err != nil {
			continue
		}
		file, _ := syntax.Parse(src, shown)
		if file == nil {
			continue
		}
		content, _, _ := file.Body.PartialContent(schema)
		for _, b := range content.Blocks {
			f(v.real(shown), src, b)
		}
	}
}

// Backend finds a backend or cloud block in the root module.
func (v *Module) Backend(dir string) (kind, at string) {
	terraform := &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "terraform"}}}
	inner := &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "backend", LabelNames: []string{"type"}}, {Type: "cloud"}}}
	v.blocks(dir, terraform, func(file string, _ []byte, b *hcl.Block) {
		content, _, _ := b.Body.PartialContent(inner)
		for _, found := range content.Blocks {
			if kind == "" {
				kind = found.Type
				at = fmt.Sprintf("%s:%d", file, found.DefRange.Start.Line)
			}
		}
	})
	return kind, at
}

// IsConfiguration reports whether OpenTofu reads the file.
func IsConfiguration(name string) bool {
	for _, ext := range []string{".tf", ".tf.json", ".tofu", ".tofu.json"} {
		if strings.HasSuffix(name, ext) {
			return true
		}
	}
	return false
}
