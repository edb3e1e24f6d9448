// SPDX-License-Identifier: Apache-2.0

package templatesource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const (
	// readEvery is how often templates are read again.
	readEvery = 30 * time.Second
	// readAfter is how long to wait for more publications after one on this server: a
	// module, its signature and the index are published separately.
	readAfter = time.Second
)

// Options configures where templates come from. Catalog is required.
type Options struct {
	Dir      string           // folder of *.hcl files; "": none
	Sources  []Source         // the first whose glob matches counts
	Catalog  *catalog.Catalog // of modules, and of templates that are artifacts
	Defaults template.Defaults
	Known    template.Known // names that templates may use
	Tool     string         // that launches run: opentofu, terraform, or "": not known
	Logger   *slog.Logger   // nil: none
}

// Source admits templates from the registry, and limits what they may use.
type Source struct {
	Templates   string // glob of names
	Versions    addr.Constraint
	Modules     []string // globs; empty: modules of the template's namespace
	Credentials []string // empty: none
	Max         int      // max instances of each; 0: as the template says
}

// Templates holds the templates that may be launched at present. It is safe for concurrent use.
type Templates struct {
	o Options

	reading sync.Mutex // guards files and artifacts: only one Load at a time

	files     map[string]templateFile     // by name of the file
	artifacts map[string]templateArtifact // by name of the template

	mu       sync.Mutex // guards the fields below, whose values never change
	entries  map[string]*template.Entry
	problems []template.Problem
}

// New returns a Templates without content, to be filled by [Templates.Load] or [Templates.Run].
func New(o Options) *Templates {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Templates{o: o, files: map[string]templateFile{}, artifacts: map[string]templateArtifact{}, entries: map[string]*template.Entry{}}
}

// Run loads the templates at once, every 30 s, and soon after this server published a
// module or a template, until ctx ends.
func (t *Templates) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		news := t.o.Catalog.News()
		t.Load(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(readEvery):
		case <-news:
			select {
			case <-ctx.Done():
			case <-time.After(readAfter):
			}
		}
	}
	return nil
}

// Load loads the templates once. What cannot be read is kept unchanged and becomes a
// problem, which is logged.
func (t *Templates) Load(ctx context.Context) {
	t.reading.Lock()
	defer t.reading.Unlock()
	found := map[string]*template.Entry{}
	problems := []template.Problem{}
	problems = append(problems, t.readFiles(found)...)
	problems = append(problems, t.readArtifacts(ctx, found)...)
	for name, e := range found {
		found[name] = t.resolveModule(ctx, e)
	}
	if ctx.Err() != nil {
		return // the last read was not completed
	}
	t.mu.Lock()
	before := t.problems
	t.entries = found
	t.problems = problems
	t.mu.Unlock()
	for _, p := range problems {
		if !slices.Contains(before, p) {
			t.o.Logger.Error("template cannot be used", "from", p.From, "reason", p.Text)
		}
	}
}

// Current returns the template with a name.
func (t *Templates) Current(name string) (*template.Entry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[name]
	return e, ok
}

// All returns the templates, by name.
func (t *Templates) All() []template.Entry {
	all, _ := t.Known()
	return all
}

// Known returns the templates, by name, and whether all files and artifacts could be read.
func (t *Templates) Known() (all []template.Entry, complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(t.entries)) {
		all = append(all, *t.entries[name])
	}
	return all, len(t.problems) == 0
}

// resolveModule returns an entry with the module that it refers to at present.
func (t *Templates) resolveModule(ctx context.Context, e *template.Entry) *template.Entry {
	out := *e
	out.Template = e.Template.WithDefaults(t.o.Defaults)
	err := out.Template.CheckExpressions(t.o.Known)
	if err == nil {
		out.Digest, err = out.Template.Digest()
	}
	if err != nil {
		out.Problem = err.Error()
		return &out
	}
	before, known := t.Current(e.Template.Name)
	known = known && before.Digest == out.Digest && before.Problem == ""
	source, description, err := Resolve(ctx, t.o.Catalog, out.Template.Module)
	_, misfits := errors.AsType[*MisfitError](err)
	switch {
	case misfits:
	case err != nil && known && isTemporary(err):
		return before
	case err != nil:
		out.Problem = err.Error()
		if e, ok := errors.AsType[*unreadError](err); ok {
			out.Cause = out.Problem
			out.Problem = e.what + " cannot be read now"
		}
		return &out
	case known && before.Source == source:
		return before
	}
	if !misfits {
		out.Schema, err = t.newSchema(out.Template, description)
	}
	if err != nil {
		e, passes := t.useOlder(ctx, &out, source.Version, err)
		if passes && known {
			return before
		}
		return e
	}
	out.Source = source
	return &out
}

// maxOlder is how many versions below the newest are tried to find one that fits.
const maxOlder = 20

// useOlder handles a template whose newest module version does not fit, for example because
// of a new required input. It uses the highest older version that fits, else reports the
// problem of the newest. passes reports a temporary failure of the registry.
func (t *Templates) useOlder(ctx context.Context, e *template.Entry, newest string, why error) (_ *template.Entry, passes bool) {
	c := t.o.Catalog
	e.Problem = why.Error()
	ref := e.Template.Module
	m, err := addr.ParseModule(ref.Address)
	if err != nil {
		return e, false
	}
	list, err := c.Versions(ctx, m.Item())
	if err != nil {
		return e, isTemporary(err)
	}
	below := slices.DeleteFunc(allowedVersions(ref, list.Listed), func(v addr.Version) bool { return v.String() == newest })
	for _, v := range below[:min(len(below), maxOlder)] {
		ref.Version = v.String()
		source, described, err := Resolve(ctx, c, ref)
		if err != nil && isTemporary(err) {
			return e, true
		}
		if err != nil {
			continue
		}
		if schema, err := t.newSchema(e.Template, described); err == nil {
			e.Source = source
			e.Schema = schema
			e.Problem = ""
			e.Behind = fmt.Sprintf("it stays at version %s of the module, since version %s is not compatible with the template: %v", v, newest, why)
			return e, false
		}
	}
	return e, false
}

// newSchema refuses a module that the tool of launches does not take as a root module.
func (t *Templates) newSchema(of *template.Template, m template.Module) (*template.Schema, error) {
	if err := m.RefusedBy(t.o.Tool); err != nil {
		return nil, fmt.Errorf("template %s: %w", of.Name, err)
	}
	return template.NewSchema(of, m)
}

// isTemporary reports whether the registry failed temporarily.
func isTemporary(err error) bool {
	return oci.Passing(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Resolve returns the module version that a template refers to at present, by its
// digests, and the inputs and outputs of the module.
func Resolve(ctx context.Context, c *catalog.Catalog, ref template.ModuleRef) (template.Source, template.Module, error) {
	m, err := addr.ParseModule(ref.Address)
	if err != nil {
		return template.Source{}, template.Module{}, err
	}
	v, err := chooseVersion(ctx, c, m, ref)
	if errors.Is(err, oci.ErrNotFound) && !errors.Is(err, errNoVersion) { // its text names the repository, which is meaningless to users of a built-in registry
		return template.Source{}, template.Module{}, fmt.Errorf("module %s: no version of it is published: %w", m, oci.ErrNotFound)
	}
	if errors.Is(err, errNoVersion) {
		return template.Source{}, template.Module{}, fmt.Errorf("module %s: %w", m, err)
	}
	if err != nil {
		return template.Source{}, template.Module{}, &unreadError{fmt.Sprintf("module %s", m), err}
	}
	mv, err := c.ModuleVersion(ctx, m, v)
	if err != nil {
		return template.Source{}, template.Module{}, &unreadError{fmt.Sprintf("module %s %s", m, v), err}
	}
	source := template.Source{Module: m.String(), Version: v.String(), Digest: mv.Manifest.Digest.String(), Archive: mv.Zip.Digest.String(), Size: mv.Zip.Size, Path: ref.Path}
	if ref.Pinned() && source.Digest != ref.Version {
		return source, template.Module{}, fmt.Errorf("module %s %s has the digest %s now, not %s", m, v, source.Digest, ref.Version)
	}
	d, err := c.Description(ctx, mv)
	if err != nil {
		return source, template.Module{}, &unreadError{fmt.Sprintf("module %s %s", m, v), err}
	}
	described, err := Described(d, ref.Path)
	if err != nil {
		return source, described, &MisfitError{fmt.Errorf("module %s %s: %w", m, v, err)}
	}
	return source, described, nil
}

// MisfitError reports that a version of a module was read and is not what a template refers to.
type MisfitError struct{ error }

// unreadError is a registry error while reading a module.
type unreadError struct {
	what string
	err  error
}

func (e *unreadError) Error() string { return e.what + ": " + e.err.Error() }

func (e *unreadError) Unwrap() error { return e.err }

// errNoVersion reports that a module has versions, but none that a template allows.
var errNoVersion = errors.New("no version matches")

// chooseVersion returns the highest version that fits, or the one with the pinned digest.
func chooseVersion(ctx context.Context, c *catalog.Catalog, m addr.Module, ref template.ModuleRef) (addr.Version, error) {
	versions, err := c.Versions(ctx, m.Item())
	if err != nil {
		return addr.Version{}, err
	}
	if !ref.Pinned() {
		fits, err := addr.ParseConstraint(ref.Version)
		if err != nil {
			return addr.Version{}, err
		}
		v, ok := versions.Highest(fits.Allows)
		if !ok {
			return v, fmt.Errorf("%w %q: %w", errNoVersion, ref.Version, oci.ErrNotFound)
		}
		return v, nil
	}
	for _, v := range versions.Listed {
		mv, err := c.ModuleVersion(ctx, m, v)
		if err == nil && mv.Manifest.Digest.String() == ref.Version {
			return v, nil
		}
		if err != nil && isTemporary(err) {
			return v, err
		}
	}
	return addr.Version{}, fmt.Errorf("%w the digest %s: %w", errNoVersion, ref.Version, oci.ErrNotFound)
}

// Described returns the inputs and outputs of a module, or of one of its submodules.
func Described(d artifact.ModuleDescription, path string) (template.Module, error) {
	module, err := describedModule(d, path)
	if err != nil {
		return template.Module{}, err
	}
	out := template.Module{Inputs: module.Inputs, Outputs: map[string]bool{}, Refused: Refusals(module)}
	for _, o := range module.Outputs {
		if o.Ephemeral {
			return out, fmt.Errorf("the output %s is ephemeral, which both tools refuse in a root module, such as that of a template", o.Name)
		}
		out.Outputs[o.Name] = o.Sensitive
	}
	if len(out.Refused) > 1 {
		return out, fmt.Errorf("no tool takes it as a root module: opentofu: %s; terraform: %s", out.Refused["opentofu"], out.Refused["terraform"])
	}
	return out, nil
}

// Refusals says why a tool, opentofu or terraform, does not take a module as a root module.
func Refusals(m artifact.DescribedModule) map[string]string {
	refused := map[string]string{}
	for tool, what := range m.OnlyFor {
		refused[map[string]string{"opentofu": "terraform", "terraform": "opentofu"}[tool]] = "it uses " + what
	}
	for _, o := range m.Outputs {
		if o.Deprecated != "" {
			refused["terraform"] = "its output " + o.Name + " is deprecated, as none of a root module may be"
		}
	}
	return refused
}

func describedModule(d artifact.ModuleDescription, path string) (artifact.DescribedModule, error) {
	if path == "" {
		return d.Root, nil
	}
	i := slices.IndexFunc(d.Submodules, func(m artifact.DescribedModule) bool { return m.Path == path })
	if i < 0 {
		return artifact.DescribedModule{}, fmt.Errorf("no module %s; only those in modules/ can be launched", path)
	}
	return d.Submodules[i], nil
}
