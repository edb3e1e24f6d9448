// SPDX-License-Identifier: Apache-2.0

package description

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// RequiredProvider is a provider that a configuration needs.
type RequiredProvider struct {
	Address  addr.Provider // with its host name
	Versions addr.Constraint
	Text     string // the constraints in the form of a lock file
	Where    string // the directory of the first module that needs it, below root
}

// Requirements are the providers that a root module and the local modules it calls need, in the
// order of addresses. Modules from elsewhere are not read.
type Requirements struct {
	Providers []RequiredProvider
	Notes     []string // what was not read, and which module was chosen by a value
	Unknown   []string // calls of which no value here says which module they load
}

// RequiredProviders reads the root module in tree. Addresses without a host get defaultHost;
// providers built into the tools are omitted. root is the name of the tree in messages.
func RequiredProviders(tree fs.FS, root, defaultHost string) (r Requirements, err error) {
	files := &archive.Tree{}
	err = fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && strings.HasPrefix(path.Base(name), "."):
			return fs.SkipDir
		case e.Type().IsRegular() && IsConfiguration(name):
			files.Files = append(files.Files, archive.File{Path: name})
		}
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("reading the configuration in %s: %w", root, err)
	}
	if !slices.ContainsFunc(files.Files, func(f archive.File) bool { return !strings.Contains(f.Path, "/") }) {
		return r, fmt.Errorf("%s: %w", root, ErrNoModule)
	}
	v, err := NewModule(tree, files)
	if err != nil {
		return r, err
	}
	w := &requirements{view: v, root: root, host: defaultHost, seen: map[string]bool{}, found: map[addr.Provider]*RequiredProvider{}, to: &r}
	if err := w.addModuleOf("."); err != nil {
		return r, err
	}
	r.Providers, err = w.sortedProviders()
	return r, err
}

type requirements struct {
	view  *Module
	root  string
	host  string
	seen  map[string]bool
	found map[addr.Provider]*RequiredProvider
	to    *Requirements
}

func (w *requirements) addModuleOf(dir string) error {
	if w.seen[dir] {
		return nil
	}
	w.seen[dir] = true
	m, diags := w.view.load(dir)
	if diags.HasErrors() {
		return w.folderProblem(dir, diags)
	}
	for name, r := range m.RequiredProviders {
		if err := w.add(name, r, dir); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.ModuleCalls)) {
		if err := w.addCall(dir, m.ModuleCalls[name]); err != nil {
			return err
		}
	}
	return nil
}

// addCall adds the providers of a module that another one calls. Only the values of the root
// module are known.
func (w *requirements) addCall(dir string, call *tfconfig.ModuleCall) error {
	at, source, known := w.fileInTree(whereIs(call)), call.Source, true
	if isDynamic(source) {
		source, known = w.view.computeSource(source)
		known = known && dir == "."
	}
	if !known {
		w.to.Unknown = append(w.to.Unknown, fmt.Sprintf("%s: the providers that it needs are unknown, because its source %s depends on more than defaults, locals and .tfvars files", at, call.Source))
		return nil
	}
	for _, target := range w.view.calledFolders(dir, source) {
		if !fs.ValidPath(target) {
			w.to.Notes = append(w.to.Notes, fmt.Sprintf("%s uses %s, which is outside the folder: the providers that it needs are unknown", at, source))
			continue
		}
		if isDynamic(call.Source) {
			w.to.Notes = append(w.to.Notes, fmt.Sprintf("%s uses %s, as determined by the defaults, locals and .tfvars files here: other values may require other providers", at, source))
		}
		if err := w.addModuleOf(target); err != nil {
			return err
		}
	}
	return nil
}

// folderProblem returns the first error of a directory, with its position in a file if it has one.
func (w *requirements) folderProblem(dir string, diags tfconfig.Diagnostics) error {
	d := diags[slices.IndexFunc(diags, func(d tfconfig.Diagnostic) bool { return d.Severity == tfconfig.DiagError })]
	at := w.fileInTree(dir)
	if d.Pos != nil {
		at = fmt.Sprintf("%s:%d", w.fileInTree(d.Pos.Filename), d.Pos.Line)
	}
	return errors.New(strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", at, d.Summary, d.Detail), ": "))
}

func (w *requirements) fileInTree(name string) string {
	return filepath.Join(w.root, filepath.FromSlash(name))
}

func (w *requirements) add(name string, r *tfconfig.ProviderRequirement, dir string) error {
	if (artifact.DescribedProvider{Name: name, Source: r.Source}).BuiltIn() {
		return nil
	}
	p, err := addr.ParseProvider(cmp.Or(r.Source, "hashicorp/"+name))
	if err != nil {
		return fmt.Errorf("%s: provider %q: %w", w.fileInTree(dir), name, err)
	}
	p.Hostname = cmp.Or(p.Hostname, w.host)
	have, ok := w.found[p]
	if !ok {
		have = &RequiredProvider{Address: p, Where: w.fileInTree(dir)}
		w.found[p] = have
	}
	texts := strings.Split(have.Text, ", ")
	for _, c := range r.VersionConstraints {
		for part := range strings.SplitSeq(c, ",") {
			texts = append(texts, spaceConstraint(strings.TrimSpace(part)))
		}
	}
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	slices.Sort(texts)
	have.Text = strings.Join(slices.Compact(texts), ", ")
	return nil
}

// spaceConstraint formats one constraint as the clients do in lock files, ">=1.0" as ">= 1.0".
func spaceConstraint(c string) string {
	version := strings.TrimLeft(c, "<>=!~ ")
	if op := strings.TrimSpace(strings.TrimSuffix(c, version)); op != "" && op != "=" {
		return op + " " + version
	}
	return version
}

func (w *requirements) sortedProviders() ([]RequiredProvider, error) {
	var out []RequiredProvider
	for _, r := range w.found {
		c, err := addr.ParseConstraint(r.Text)
		if err != nil {
			return nil, fmt.Errorf("%s: provider %s: %w", r.Where, r.Address, err)
		}
		r.Versions = c
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b RequiredProvider) int { return strings.Compare(a.Address.String(), b.Address.String()) })
	return out, nil
}
