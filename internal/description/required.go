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

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/text"
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

// terraformHost is the host that Terraform adds to addresses without one.
const terraformHost = "registry.terraform.io"

// RequiredProviders reads the root module in tree, with its tests. Addresses without a host get
// defaultHost; if that is Terraform's, .tofu files do not count. Providers built into the tools are
// omitted. root is the name of the tree in messages.
func RequiredProviders(tree fs.FS, root, defaultHost string) (r Requirements, err error) {
	files := &archive.Tree{}
	err = fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && strings.HasPrefix(path.Base(name), "."):
			return fs.SkipDir
		case isFile(tree, name, e) && IsConfiguration(name):
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
	v = v.readBy(defaultHost == terraformHost)
	if len(v.folderAt(".").files) == 0 {
		return r, fmt.Errorf("%s: %w", root, ErrNoModule)
	}
	w := &requirements{view: v, root: root, host: defaultHost, seen: map[string]bool{}, found: map[addr.Provider]*RequiredProvider{}, to: &r}
	w.dynamic = slices.ContainsFunc(slices.Collect(maps.Values(v.folders)), (*folder).isDynamic)
	if err := w.addModuleOf(".", nil, ""); err != nil {
		return r, err
	}
	if err := w.addImports(); err != nil {
		return r, err
	}
	if err := w.addTests(); err != nil {
		return r, err
	}
	r.Providers, err = w.sortedProviders()
	return r, err
}

// isFile reports whether an entry is a file, or a link to one, which the tools follow.
func isFile(tree fs.FS, name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	info, err := fs.Stat(tree, name)
	return err == nil && info.Mode().IsRegular()
}

type requirements struct {
	view  *Module
	root  string
	host  string
	seen  map[string]bool
	found map[addr.Provider]*RequiredProvider
	to    *Requirements

	dynamic bool // a source depends on values
	calls   int
}

// maxCalls bounds the calls of modules of which one has a source that depends on values.
const maxCalls = 1000

// addModuleOf adds the providers of a folder. It is read once, unless values choose what it or what
// it calls loads.
func (w *requirements) addModuleOf(dir string, in *scope, call string) error {
	if err := w.view.addFolder(dir); err != nil {
		return err
	}
	if w.calls++; w.calls > maxCalls && w.dynamic {
		w.addNote(&w.to.Unknown, "%s calls modules more than %d times: the providers that they need are not all known", w.root, maxCalls)
	}
	if w.seen[dir] && (!w.dynamic || w.calls > maxCalls) {
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
	values := &scope{view: w.view, dir: dir, in: in, call: call}
	for _, name := range slices.Sorted(maps.Keys(m.ModuleCalls)) {
		if err := w.addCall(dir, m.ModuleCalls[name], values); err != nil {
			return err
		}
	}
	return nil
}

// addFolder reads a folder that is not among the files: one whose name begins with a dot.
func (v *Module) addFolder(dir string) error {
	if v.dirs[dir] != nil {
		return nil
	}
	entries, _ := fs.ReadDir(v.tree, dir) // load reports that there is none
	for _, e := range entries {
		if isFile(v.tree, path.Join(dir, e.Name()), e) && IsConfiguration(e.Name()) {
			v.dirs[dir] = append(v.dirs[dir], e.Name())
		}
	}
	read, err := v.readFolder(dir)
	if err == nil && len(v.dirs[dir]) > 0 {
		v.folders[dir] = read
	}
	return err
}

func (f *folder) isDynamic() bool {
	for _, call := range f.module.ModuleCalls {
		if isDynamic(call.Source) {
			return true
		}
	}
	return false
}

// addCall adds the providers of a module that another one calls.
func (w *requirements) addCall(dir string, call *tfconfig.ModuleCall, values *scope) error {
	at, source, known := w.fileInTree(whereIs(call)), call.Source, true
	if isDynamic(source) && values != nil { // one of a test is constant
		source, known = values.computeText(source)
	}
	if !known {
		w.addNote(&w.to.Unknown, "%s: the providers that it needs are unknown, because its source %s depends on more than defaults, locals, .tfvars files and a few functions", at, call.Source)
		return nil
	}
	for _, target := range w.view.calledFolders(dir, source) {
		if !fs.ValidPath(target) {
			w.addNote(&w.to.Notes, "%s uses %s, which is outside the folder: the providers that it needs are unknown", at, source)
			continue
		}
		if isDynamic(call.Source) {
			w.addNote(&w.to.Notes, "%s uses %s, as determined by the defaults, locals and .tfvars files here: other values may require other providers", at, source)
		}
		if err := w.addModuleOf(target, values, call.Name); err != nil {
			return err
		}
	}
	return nil
}

// addNote adds a line, once.
func (w *requirements) addNote(to *[]string, format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !slices.Contains(*to, line) {
		*to = append(*to, line)
	}
}

// addImports adds the providers of import blocks, of modules too as in Terraform 1.16. Terraform does
// not look at one of a resource that is declared, or in a module.
func (w *requirements) addImports() error {
	for _, dir := range slices.Sorted(maps.Keys(w.seen)) {
		f := w.view.folderAt(dir)
		if f == nil || dir != "." && !w.view.terraform {
			continue
		}
		for to, name := range f.imports {
			if _, ok := f.uses["resource."+to]; w.view.terraform && (ok || strings.HasPrefix(to, "module.")) {
				continue
			}
			if err := w.add(name, f.module.RequiredProviders[name], dir); err != nil {
				return err
			}
		}
	}
	return nil
}

var testFile = text.Pattern(`^[^.].*\.(tf|tofu)test\.(hcl|json)$`)

// addTests adds what test files need, which init installs: modules of run blocks and, in OpenTofu,
// providers. Local sources are relative to the root module.
func (w *requirements) addTests() error {
	here, _ := fs.Glob(w.view.tree, "*test.*")
	below, _ := fs.Glob(w.view.tree, "tests/*test.*")
	names := slices.DeleteFunc(append(here, below...), func(name string) bool { return !testFile().MatchString(path.Base(name)) })
	for _, name := range names {
		tofu := strings.Contains(path.Base(name), ".tofutest.")
		hidden := !tofu && slices.Contains(names, strings.Replace(name, ".tftest.", ".tofutest.", 1))
		if tofu && w.view.terraform || hidden && !w.view.terraform {
			continue
		}
		file, diags, err := w.view.parseSource(name)
		if err != nil || diags.HasErrors() || file == nil {
			w.addNote(&w.to.Unknown, "%s: the providers that it needs are unknown, because it cannot be read", w.fileInTree(name))
			continue
		}
		content, _, _ := file.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "provider", LabelNames: []string{"name"}}, {Type: "run", LabelNames: []string{"name"}}}})
		for _, b := range content.Blocks {
			if b.Type == "provider" && !w.view.terraform {
				if err := w.add(b.Labels[0], w.view.folderAt(".").module.RequiredProviders[b.Labels[0]], "."); err != nil {
					return err
				}
			}
			inner, _, _ := b.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "module"}}})
			for _, m := range inner.Blocks {
				a, ok := attributesOf(m)["source"]
				if !ok || b.Type != "run" {
					continue
				}
				source, _ := evaluateText(a.Expr, nil)
				call := &tfconfig.ModuleCall{Name: "run." + b.Labels[0], Source: source, Pos: tfconfig.SourcePos{Filename: name, Line: m.DefRange.Start.Line}}
				if err := w.addCall(".", call, nil); err != nil {
					return err
				}
			}
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
	r = cmp.Or(r, &tfconfig.ProviderRequirement{})
	if (artifact.DescribedProvider{Name: name, Source: r.Source}).BuiltIn() {
		return nil
	}
	source := cmp.Or(r.Source, name)
	if !strings.Contains(source, "/") {
		source = "hashicorp/" + source
	}
	p, err := addr.ParseProvider(source)
	if err != nil {
		return fmt.Errorf("%s: provider %q: %w", w.fileInTree(dir), name, err)
	}
	p.Hostname = cmp.Or(p.Hostname, w.host)
	have, ok := w.found[p]
	if !ok {
		have = &RequiredProvider{Address: p, Where: w.fileInTree(dir)}
		w.found[p] = have
	}
	have.Text = strings.Join(slices.DeleteFunc(append([]string{have.Text}, r.VersionConstraints...), func(s string) bool { return strings.TrimSpace(s) == "" }), ", ")
	return nil
}

func (w *requirements) sortedProviders() ([]RequiredProvider, error) {
	var out []RequiredProvider
	for _, r := range w.found {
		c, err := addr.ParseConstraint(r.Text)
		if err != nil {
			return nil, fmt.Errorf("%s: provider %s: %w", r.Where, r.Address, err)
		}
		r.Versions = c
		r.Text = c.Normal()
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b RequiredProvider) int { return strings.Compare(a.Address.String(), b.Address.String()) })
	return out, nil
}
