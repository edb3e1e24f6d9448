// SPDX-License-Identifier: Apache-2.0

package description

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/seed-141914ff/okara/internal/archive"
)

// ErrNoModule means that a directory has no file that tofu or terraform would read.
var ErrNoModule = errors.New("no .tf, .tf.json, .tofu or .tofu.json file")

// ErrOutside means that a module calls another one that is outside of the
// package, and ErrAbsent that it calls one that is not in it.
var (
	ErrOutside = archive.ErrOutside
	ErrAbsent  = errors.New("not in the package")
)

// Module is the shipped configuration by directory.
type Module struct {
	tree      fs.FS
	dirs      map[string][]string                  // directory -> names of its configuration, sorted
	all       map[string]bool                      // shipped paths
	folders   map[string]*folder                   // by directory
	values    map[string]map[string]hcl.Expression // of scopes, by directory
	terraform bool                                 // folders are those of Terraform, which reads no .tofu files
}

// NewModule reads the configuration of a tree. A file that exceeds a bound of [syntax] is an
// error; one that is too large, or invalid JSON, is a problem of the description.
func NewModule(tree fs.FS, t *archive.Tree) (*Module, error) {
	v := &Module{tree: tree, dirs: map[string][]string{}, all: map[string]bool{}, folders: map[string]*folder{}, values: map[string]map[string]hcl.Expression{}}
	for _, f := range t.Files {
		v.all[f.Path] = true
		if IsConfiguration(f.Path) {
			v.dirs[path.Dir(f.Path)] = append(v.dirs[path.Dir(f.Path)], path.Base(f.Path))
		}
	}
	var errs []error
	for _, dir := range slices.Sorted(maps.Keys(v.dirs)) {
		slices.Sort(v.dirs[dir])
		read, err := v.readFolder(dir)
		if errs = append(errs, err); err == nil {
			v.folders[dir] = read
		}
	}
	return v, errors.Join(errs...)
}

// readBy returns the configuration that a tool reads.
func (v *Module) readBy(terraform bool) *Module {
	by := *v
	by.terraform = terraform
	return &by
}

// folderAt returns what is read of a directory; nil: nothing.
func (v *Module) folderAt(dir string) *folder {
	f := v.folders[path.Clean(dir)]
	if v.terraform && f != nil && f.other != nil {
		return f.other
	}
	return f
}

func (v *Module) load(dir string) (*tfconfig.Module, tfconfig.Diagnostics) {
	if f := v.folderAt(dir); f != nil {
		return f.module, f.diags
	}
	return tfconfig.NewModule(dir), tfconfig.Diagnostics{{
		Severity: tfconfig.DiagError, Summary: "Failed to read directory", Detail: fmt.Sprintf("Directory %s does not exist or cannot be read.", dir),
	}}
}

// BrokenCall is a call of a local module that will not exist when the package is installed.
type BrokenCall struct {
	Err     error // with file and line; wraps ErrOutside or ErrAbsent
	Reached bool  // by users of the module in the root or of one in modules/*
	Target  string
}

// BrokenCalls returns the broken calls of the package, whose root module is in dir, sorted by file.
func (v *Module) BrokenCalls(dir string) []BrokenCall {
	reached := v.reachedFolders(path.Clean(dir))
	var broken []BrokenCall
	for at := range v.dirs {
		m, _ := v.load(at)
		for _, call := range m.ModuleCalls {
			for _, target := range v.calledFolders(at, call.Source) {
				if _, ok := v.dirs[target]; ok {
					continue
				}
				why := ErrAbsent
				if !fs.ValidPath(target) {
					why = ErrOutside
				}
				broken = append(broken, BrokenCall{fmt.Errorf("%s uses %s, which is %w", whereIs(call), call.Source, why), reached[at], target})
			}
		}
	}
	slices.SortFunc(broken, func(a, b BrokenCall) int { return strings.Compare(a.Err.Error(), b.Err.Error()) })
	return broken
}

func whereIs(call *tfconfig.ModuleCall) string {
	return fmt.Sprintf("%s:%d: module %q", call.Pos.Filename, call.Pos.Line, call.Name)
}

// Called returns the directories that users of a package call: dir, or the
// modules in dir/modules if dir itself has no configuration.
func (v *Module) Called(dir string) []string {
	dir = path.Clean(dir)
	if _, ok := v.dirs[dir]; ok {
		return []string{dir}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.dirs)), func(d string) bool { return path.Dir(d) != path.Join(dir, "modules") })
}

// reachedFolders returns the directories that users of a package reach: the root module, the
// modules beside it and in the package's own folder modules, and what these call.
func (v *Module) reachedFolders(root string) map[string]bool {
	start := []string{root}
	for dir := range v.dirs {
		if above := path.Dir(dir); above == path.Join(root, "modules") || above == "modules" {
			start = append(start, dir)
		}
	}
	seen := map[string]bool{}
	for _, dir := range v.withCalled(len(v.all), start...) {
		seen[dir] = true
	}
	return seen
}

// maxCalled bounds the folders in which is looked for what a tool refuses, per described module.
const maxCalled = 100

// withCalled returns directories and what they call, each once, up to a limit.
func (v *Module) withCalled(limit int, queue ...string) (all []string) {
	seen := map[string]bool{}
	for ; len(queue) > 0 && len(all) <= limit; queue = queue[1:] {
		if seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		f := v.folderAt(queue[0])
		if f == nil {
			continue
		}
		all = append(all, queue[0])
		for _, name := range slices.Sorted(maps.Keys(f.module.ModuleCalls)) {
			queue = append(queue, v.calledFolders(queue[0], f.module.ModuleCalls[name].Source)...)
		}
	}
	return all
}

// onlyFor tells by tool what the other one refuses, in a directory or in one that it calls.
func (v *Module) onlyFor(dir string) map[string]string {
	var all map[string]string
	for _, tool := range []string{"opentofu", "terraform"} {
		by := v.readBy(tool == "opentofu")
		for _, at := range by.withCalled(maxCalled, dir) {
			what := strings.Join(by.folderAt(at).onlyFor[tool], ", ")
			if what == "" {
				continue
			}
			if at != dir {
				what += " in " + at
			}
			if all == nil {
				all = map[string]string{}
			}
			all[tool] = what
			break
		}
	}
	return all
}

// Backend finds a backend or cloud block in the root module.
func (v *Module) Backend(dir string) (kind, at string) {
	if f, ok := v.folders[path.Clean(dir)]; ok {
		return f.backend, f.at
	}
	return "", ""
}

// IsConfiguration reports whether OpenTofu reads the file.
func IsConfiguration(name string) bool {
	return slices.ContainsFunc([]string{".tf", ".tf.json", ".tofu", ".tofu.json"}, func(ext string) bool { return strings.HasSuffix(name, ext) })
}
