// SPDX-License-Identifier: Apache-2.0

package description

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// maxConfiguration bounds one parsed file, in bytes.
const maxConfiguration = 4 << 20

// folder is what the files of one directory declare. Each file is parsed once, and its
// syntax tree is dropped.
type folder struct {
	module   *tfconfig.Module
	diags    tfconfig.Diagnostics
	flags    map[string]variableFlags // by variable
	outputs  map[string]outputFlags
	uses     map[string]string   // the local names of providers, by resource
	tools    map[string]string   // versions of the tools in compatible_with, by tool
	onlyFor  map[string][]string // what the other tool refuses, by tool
	other    *folder             // what Terraform reads of a directory with .tofu files
	files    []string            // paths, overrides last
	imports  map[string]string   // the local names of providers, by the address of an import
	moved    []artifact.DescribedMove
	backend  string          // type of the first backend or cloud block; "" for none
	at       string          // file and line of it
	problems hcl.Diagnostics // what no client can load
	failing  hcl.Diagnostics // what else fails at every init
}

type parsedFile struct {
	*hcl.File // nil: it cannot be read
	diags     hcl.Diagnostics
	name      string
	content   *hcl.BodyContent // nil if it has errors
	unknown   hcl.Diagnostics  // what else is wrong, which the description leaves out
	override  bool             // its blocks modify those of other files
}

// readFolder parses the files of a directory. The error is [syntax.ErrTooComplex] for files whose
// processing would crash this process or take hours. In OpenTofu x.tofu hides x.tf; Terraform reads
// no .tofu files.
func (v *Module) readFolder(dir string) (*folder, error) {
	var errs []error
	var files, shared []parsedFile
	hasTofu := false
	for _, name := range v.dirs[dir] {
		p, err := v.parse(path.Join(dir, name))
		stem, tofu := strings.CutSuffix(strings.TrimSuffix(name, ".json"), ".tofu")
		stem = strings.TrimSuffix(stem, ".tf")
		p.override = stem == "override" || strings.HasSuffix(stem, "_override")
		switch {
		case errors.Is(err, syntax.ErrTooComplex):
			errs = append(errs, err)
		case strings.HasPrefix(name, "."): // the tools do not read it
		case tofu:
			files = append(files, p)
			hasTofu = true
		default:
			shared = append(shared, p)
			if !slices.Contains(v.dirs[dir], stem+strings.Replace(name[len(stem):], ".tf", ".tofu", 1)) {
				files = append(files, p)
			}
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	f := newFolder(dir, files)
	if hasTofu {
		f.other = newFolder(dir, shared)
		if len(f.problems) == 0 && (len(shared) == 0 || len(f.other.problems) > 0) {
			f.other.onlyFor["opentofu"] = []string{".tofu files"}
		}
	}
	return f, nil
}

// newFolder describes what files declare, overrides last, as the tools do.
func newFolder(dir string, files []parsedFile) *folder {
	last := map[bool]int{true: 1}
	slices.SortStableFunc(files, func(a, b parsedFile) int { return last[a.override] - last[b.override] })
	f := &folder{flags: map[string]variableFlags{}, outputs: map[string]outputFlags{}, uses: map[string]string{}, imports: map[string]string{}, onlyFor: map[string][]string{}}
	for _, p := range files {
		f.files = append(f.files, p.name)
		if p.File != nil {
			f.readDetails(p.File)
		}
	}
	f.inspect(dir, files)
	f.problems, f.failing = findProblems(files)
	return f
}

// parse parses one file. The error, which is also a diagnostic, is why it cannot be read.
func (v *Module) parse(name string) (p parsedFile, err error) {
	p.name = name
	if p.File, p.diags, err = v.parseSource(name); err != nil {
		p.unknown = p.diags
		p.diags = hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Failed to read file", Detail: fmt.Sprintf("The configuration file %q could not be read.", name),
		}}
	}
	if p.File != nil && !p.diags.HasErrors() {
		p.content, p.unknown = p.Body.Content(fileSchema())
	}
	return p, err
}

func (v *Module) parseSource(name string) (*hcl.File, hcl.Diagnostics, error) {
	info, err := fs.Stat(v.tree, name)
	if err != nil {
		return nil, nil, err
	}
	if info.Size() > maxConfiguration {
		return nil, nil, fmt.Errorf("%s has %d bytes, the limit is %d", name, info.Size(), maxConfiguration)
	}
	src, err := fs.ReadFile(v.tree, name)
	if err != nil {
		return nil, nil, err
	}
	file, diags, err := syntax.ParseSource(src, name)
	if err == nil && file != nil {
		err = checkEvaluated(file)
	}
	return file, diags, err
}

// checkEvaluated bounds the work of the values that terraform-config-inspect evaluates.
func checkEvaluated(file *hcl.File) error {
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil
	}
	for _, b := range body.Blocks {
		bodies := []*hclsyntax.Block{b}
		if b.Type == "terraform" || b.Type == "check" || b.Type == "language" {
			bodies = append(bodies, b.Body.Blocks...)
		}
		for _, in := range bodies {
			for _, a := range in.Body.Attributes {
				if isEvaluated(b.Type, a.Name) {
					if err := syntax.CheckValue(a.Expr); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// isEvaluated reports whether an argument is evaluated for the description of a module.
func isEvaluated(block, argument string) bool {
	switch block {
	case "variable", "terraform", "language":
		return true
	case "output":
		return argument != "value"
	}
	switch argument {
	case "provider", "source", "version", "alias":
		return true
	}
	return false
}

// inspect reads the declarations. It recovers from a panic of the library, which is caused by
// a default that is too large for a float64.
func (f *folder) inspect(dir string, files []parsedFile) {
	var diags hcl.Diagnostics
	defer func() {
		if p := recover(); p != nil {
			f.module = tfconfig.NewModule(dir)
			diags = hcl.Diagnostics{{Severity: hcl.DiagError, Summary: fmt.Sprintf("Cannot be described: %v", p)}}
		}
		f.keepDiagnostics(diags)
	}()
	f.module = tfconfig.NewModule(dir)
	for _, p := range files {
		diags = append(diags, p.diags...)
		into := f.module
		if p.override {
			into = tfconfig.NewModule(dir)
		}
		if p.File != nil {
			diags = append(diags, slices.DeleteFunc(tfconfig.LoadModuleFromFile(p.File, into), func(d *hcl.Diagnostic) bool {
				// It does not know that OpenTofu 1.9 chooses between configurations: aws.by[each.key], nor that null is no value.
				return d.Summary == "Invalid provider reference" && bytes.ContainsRune(d.Subject.SliceBytes(p.Bytes), '[') ||
					d.Summary == "Unsuitable value type" && d.Subject != nil && string(d.Subject.SliceBytes(p.Bytes)) == "null"
			})...)
		}
		if p.content != nil && p.override {
			f.overrideArguments(into, p.content.Blocks)
		}
		if p.content != nil {
			f.readBlocks(p.content.Blocks, p.override)
		}
	}
	for _, name := range f.uses {
		if _, ok := f.module.RequiredProviders[name]; !ok && name != "" {
			f.module.RequiredProviders[name] = &tfconfig.ProviderRequirement{}
		}
	}
}

// overrideArguments changes the arguments of declarations that an override file has: mergeFile in
// internal/configs of OpenTofu 1.12.6 and Terraform 1.16.4. It declares nothing; the tools refuse a validation in it.
func (f *folder) overrideArguments(o *tfconfig.Module, blocks hcl.Blocks) {
	if len(o.RequiredCore) > 0 {
		f.module.RequiredCore = o.RequiredCore
	}
	for name, p := range o.RequiredProviders {
		if f.module.RequiredProviders[name] == nil || p.Source != "" || len(p.VersionConstraints) > 0 {
			f.module.RequiredProviders[name] = p
		}
	}
	for _, b := range blocks {
		has, name := attributesOf(b), strings.Join(b.Labels, ".")
		switch b.Type {
		case "variable":
			if to := f.module.Variables[name]; to != nil {
				replaceFields(to, o.Variables[name], has)
				to.Required = to.Required && has["default"] == nil
			}
		case "output":
			replaceFields(f.module.Outputs[name], o.Outputs[name], has)
		case "module":
			replaceFields(f.module.ModuleCalls[name], o.ModuleCalls[name], has)
		}
	}
}

// replaceFields sets the fields that are named as an argument that is given: Default for default.
func replaceFields[T any](to, from *T, has hcl.Attributes) {
	for name := range has {
		field := strings.ToUpper(name[:1]) + name[1:]
		if f := reflect.ValueOf(from).Elem().FieldByName(field); to != nil && f.IsValid() {
			reflect.ValueOf(to).Elem().FieldByName(field).Set(f)
		}
	}
}

// readBlocks adds what terraform-config-inspect does not: the providers that only the blocks
// using them name, also ephemeral resources, actions (Terraform 1.14) and the data sources of
// checks; the sources of modules that are expressions; and the backend.
func (f *folder) readBlocks(blocks hcl.Blocks, override bool) {
	for _, b := range blocks {
		f.noteTool(b)
		switch b.Type {
		case "module":
			f.readCall(b)
		case "moved":
			from, ok := addressIn(b, "from")
			if to, whole := addressIn(b, "to"); ok && whole && len(f.moved) < maxMoved {
				f.moved = append(f.moved, artifact.DescribedMove{From: strings.Join(from, "."), To: strings.Join(to, ".")})
			}
		case "check", "terraform":
			content, _, _ := b.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
				{Type: "data", LabelNames: []string{"type", "name"}}, {Type: "backend", LabelNames: []string{"type"}},
				{Type: "state_store", LabelNames: []string{"type"}}, {Type: "cloud"}, {Type: "encryption"},
			}})
			f.readBlocks(content.Blocks, override)
		case "backend", "state_store", "cloud":
			if f.backend == "" || override {
				f.backend = b.Type
				f.at = fmt.Sprintf("%s:%d", b.DefRange.Filename, b.DefRange.Start.Line)
			}
		case "resource", "data", "ephemeral", "action":
			name, given := providerName(b, b.Labels[0])
			if !override || given {
				f.uses[b.Type+"."+strings.Join(b.Labels, ".")] = name
			}
		case "import":
			at, _ := addressIn(b, "to")
			of := at
			for len(of) > 2 && of[0] == "module" {
				of = of[2:]
			}
			if len(of) == 2 {
				f.imports[strings.Join(at, ".")], _ = providerName(b, of[0])
			}
		}
	}
}

// providerName returns the local name of the provider of a type, which an argument may name.
func providerName(b *hcl.Block, kind string) (name string, given bool) {
	name, _, _ = strings.Cut(kind, "_")
	a, given := attributesOf(b)["provider"]
	if given {
		quoted, _ := evaluateText(a.Expr, nil)
		name, _, _ = strings.Cut(quoted, ".")
		for _, at := range a.Expr.Variables()[:min(1, len(a.Expr.Variables()))] { // aws.west, aws.by[each.key]
			name = at.RootName()
		}
	}
	return name, given
}

// maxMoved bounds the moved blocks of a folder that are described.
const maxMoved = 200

// addressIn returns the names in an address; whole: it has no keys.
func addressIn(b *hcl.Block, argument string) (names []string, whole bool) {
	a, ok := attributesOf(b)[argument]
	if !ok {
		return nil, false
	}
	return namesIn(a.Expr)
}

func namesIn(e hcl.Expression) (names []string, whole bool) {
	var steps hcl.Traversal
	switch e := e.(type) {
	case *hclsyntax.IndexExpr: // x.y[each.key]
		names, _ = namesIn(e.Collection)
	case *hclsyntax.RelativeTraversalExpr: // x.y[each.key].z
		names, _ = namesIn(e.Source)
		steps = e.Traversal
	default:
		var diags hcl.Diagnostics
		steps, diags = hcl.AbsTraversalForExpr(e)
		whole = !diags.HasErrors()
	}
	for _, s := range steps {
		switch s := s.(type) {
		case hcl.TraverseRoot:
			names = append(names, s.Name)
		case hcl.TraverseAttr:
			names = append(names, s.Name)
		}
	}
	return names, whole && len(names) == len(steps)
}

// noteTool notes what OpenTofu 1.12 or Terraform 1.16 refuses.
func (f *folder) noteTool(b *hcl.Block) {
	has := attributesOf(b)
	content := &hcl.BodyContent{}
	if native, ok := b.Body.(*hclsyntax.Body); !ok || slices.ContainsFunc(native.Blocks, func(b *hclsyntax.Block) bool { return b.Type == "lifecycle" }) {
		content, _, _ = b.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "lifecycle"}}})
	}
	for _, inner := range content.Blocks {
		all, _, _ := inner.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "enabled"}, {Name: "prevent_destroy"}}, Blocks: []hcl.BlockHeaderSchema{{Type: "action_trigger"}}})
		maps.Copy(has, all.Attributes)
		if len(all.Blocks) > 0 {
			has["action_trigger"] = &hcl.Attribute{}
		}
	}
	dynamic := func(name string, is func(hcl.Traversal) bool) bool {
		return has[name] != nil && slices.ContainsFunc(has[name].Expr.Variables(), is)
	}
	for _, only := range []struct {
		tool, what string
		is         bool
	}{
		{"terraform", "action", b.Type == "action"},
		{"terraform", "type of an output", b.Type == "output" && has["type"] != nil},
		{"terraform", "action_trigger", has["action_trigger"] != nil},
		{"terraform", "ignore_nested_deprecations", b.Type == "module" && has["ignore_nested_deprecations"] != nil},
		{"opentofu", b.Type, b.Type == "language" || b.Type == "encryption"},
		{"opentofu", "for_each of a provider", b.Type == "provider" && has["for_each"] != nil},
		{"opentofu", "enabled", has["enabled"] != nil},
		{"opentofu", "prevent_destroy by a variable", dynamic("prevent_destroy", func(hcl.Traversal) bool { return true })},
		{"opentofu", "source by a variable that is not const", b.Type == "module" && dynamic("source", f.isNotConst)},
		{"opentofu", "version by a variable that is not const", b.Type == "module" && dynamic("version", f.isNotConst)},
		{"opentofu", "one of several configurations of a provider", b.Type != "module" && b.Type != "provider" && has["provider"] != nil && isIndexed(has["provider"].Expr)},
	} {
		if only.is && !slices.Contains(f.onlyFor[only.tool], only.what) {
			f.onlyFor[only.tool] = append(f.onlyFor[only.tool], only.what)
		}
	}
}

// isNotConst reports whether a reference is to a variable that is not const.
func (f *folder) isNotConst(t hcl.Traversal) bool {
	if len(t) < 2 || t.RootName() != "var" {
		return false
	}
	name, ok := t[1].(hcl.TraverseAttr)
	return ok && !f.flags[name.Name].constant
}

// isIndexed reports whether a reference to a provider has an index: aws.by[each.key].
func isIndexed(e hcl.Expression) bool {
	steps, diags := hcl.AbsTraversalForExpr(e)
	if diags.HasErrors() {
		return len(e.Variables()) > 1
	}
	_, ok := steps[len(steps)-1].(hcl.TraverseIndex)
	return ok
}

// attributesOf returns the arguments of a block that are read here.
func attributesOf(b *hcl.Block) hcl.Attributes {
	read := [...]string{"source", "version", "provider", "type", "default", "count", "for_each", "required_version", "from", "to", "description", "deprecated", "sensitive", "ignore_nested_deprecations"}
	schema, found := &hcl.BodySchema{}, hcl.Attributes{}
	native, ok := b.Body.(*hclsyntax.Body)
	for _, name := range read {
		if !ok {
			schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
		} else if a := native.Attributes[name]; a != nil { // as PartialContent, without its copies of both maps
			found[name] = a.AsHCLAttribute()
		}
	}
	if !ok {
		content, _, _ := b.Body.PartialContent(schema)
		return content.Attributes
	}
	return found
}

func (f *folder) keepDiagnostics(diags hcl.Diagnostics) {
	for _, d := range diags {
		kept := tfconfig.Diagnostic{Severity: tfconfig.DiagError, Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagWarning {
			kept.Severity = tfconfig.DiagWarning
		}
		if d.Subject != nil {
			kept.Pos = &tfconfig.SourcePos{Filename: d.Subject.Filename, Line: d.Subject.Start.Line}
		}
		f.diags = append(f.diags, kept)
	}
}
