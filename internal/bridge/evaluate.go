// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// evaluator asks the tool for the values of expressions in a backend block, which may
// refer to variables and local values since OpenTofu 1.8.
//
// Only the tool knows its functions, and where it takes the values of variables from. So
// its console is asked, in a folder of its own: that has the variables and local values
// that the expressions need, files with values, and links to everything else that lies
// beside the configuration, for functions that read files. It has no backend, no provider
// and no module, so nothing has to be initialized.
type evaluator struct {
	tool   Tool
	dir    string
	flags  []string // -var and -var-file
	getenv func(string) string
}

// refuseReferences is for who has no tool that evaluates a backend block.
func refuseReferences(m module) (map[string]cty.Value, error) {
	if found := references(m.backend.Body); len(found) > 0 {
		return nil, found[0].at(errors.New("refers to variables or local values, which only `okara tofu` evaluates"))
	}
	return nil, nil
}

// block evaluates the arguments of the backend block that need it, and returns their
// values by where they are written.
func (e *evaluator) block(ctx context.Context, m module) (map[string]cty.Value, error) {
	found := references(m.backend.Body)
	if len(found) == 0 {
		return nil, nil
	}
	needed := newDefinitions(m)
	for i, r := range found {
		if err := needed.add(r.attr.Expr); err != nil {
			return nil, r.at(err)
		}
		written := r.attr.Expr.Range()
		needed.asked = append(needed.asked, fmt.Sprintf("%q = (%s\n)", strconv.Itoa(i), expression(written, m.sources[written.Filename])))
	}
	answers, err := e.values(ctx, needed)
	if err != nil {
		return nil, found[0].at(fmt.Errorf("refers to variables or local values: %w", err))
	}
	values := map[string]cty.Value{}
	for i, r := range found {
		values[r.attr.Range.String()] = answers[strconv.Itoa(i)]
	}
	return values, nil
}

// values are those of what is asked, by its number.
func (e *evaluator) values(ctx context.Context, needed *definitions) (values map[string]cty.Value, err error) {
	dir, remove, err := files.TempDir("")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := errors.Join(needed.write(dir), e.link(dir)); err != nil {
		return nil, err
	}
	answer, err := e.ask(ctx, dir, "base64encode(jsonencode(local."+askedLocal+"))\n", needed)
	if err != nil {
		return nil, err
	}
	return decodeValues(answer)
}

// ask has the tool's console answer one line.
func (e *evaluator) ask(ctx context.Context, dir, question string, needed *definitions) (string, error) {
	cmd := exec.CommandContext(ctx, e.tool.Path, append([]string{"console"}, e.given(needed)...)...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(question)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TF_CLI_ARGS") })
	cmd.Env = append(cmd.Env, "TF_DATA_DIR="+filepath.Join(dir, ".data"), "TF_WORKSPACE="+SelectedWorkspace(e.dir, e.getenv), "TF_INPUT=0", "NO_COLOR=1",
		"TF_CLI_CONFIG_FILE="+os.DevNull, asking("", e.tool.Path))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s console: %w\n%s", filepath.Base(e.tool.Path), err, strings.TrimSpace(said.String()))
	}
	answer := strings.TrimSpace(string(out))
	answer = answer[strings.LastIndexByte(answer, '\n')+1:] // warnings come first
	if strings.Contains(answer, "(sensitive value)") {
		return "", errors.New("one of them is sensitive, and the settings of a backend are kept in clear")
	}
	if strings.Contains(answer, "(known after apply)") {
		return "", errors.New("one of them has no value; give it by -var, a file of values or TF_VAR_NAME")
	}
	return strings.Trim(answer, `"`), nil
}

// given are the flags with values of variables that are needed: the tool refuses those
// of others.
func (e *evaluator) given(needed *definitions) []string {
	var flags []string
	for _, f := range e.flags {
		value, file := strings.CutPrefix(f, "-var-file=")
		if file && !filepath.IsAbs(value) {
			if abs, err := filepath.Abs(filepath.Join(e.dir, value)); err == nil {
				f = "-var-file=" + abs
			}
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(f, "-var="), "=")
		if file || needed.variables[strings.TrimSpace(name)] {
			flags = append(flags, f)
		}
	}
	return flags
}

// link puts what lies beside the configuration into the folder, values of variables too.
func (e *evaluator) link(dir string) error {
	from, err := filepath.Abs(e.dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if _, config := configName(name, true); config || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "terraform.tfstate") {
			continue
		}
		if err := os.Symlink(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("preparing to evaluate the backend block: %w", err)
		}
	}
	return nil
}

// decodeValues reads the answer of the console: JSON in base64, which it prints without
// quoting anything.
func decodeValues(answer string) (map[string]cty.Value, error) {
	b, err := base64.StdEncoding.DecodeString(answer)
	if err != nil {
		return nil, fmt.Errorf("the console answered something else than a value: %w", err)
	}
	kind, err := ctyjson.ImpliedType(b)
	if err != nil {
		return nil, err
	}
	all, err := ctyjson.Unmarshal(b, kind)
	if err != nil {
		return nil, err
	}
	return all.AsValueMap(), nil
}

// definitions are the variables and local values that expressions need.
type definitions struct {
	m         module
	variables map[string]bool
	locals    map[string]string // source of the expression
	all       map[string]*hclsyntax.Attribute
	blocks    []definition
	asked     []string // attributes of the object that is asked for
}

// askedLocal is the name of that object. No name of a user has two dashes at its end by
// chance.
const askedLocal = "okara--asked--"

// definition is a block that defines a variable, or a part of it in an override file.
type definition struct {
	name     string
	text     string
	override bool
}

func newDefinitions(m module) *definitions {
	d := &definitions{m: m, variables: map[string]bool{}, locals: map[string]string{}, all: map[string]*hclsyntax.Attribute{}}
	for i, path := range slices.Concat(m.primary, m.override) {
		body, _ := syntax.ParseBody(m.sources[path], path) // the tool says what is wrong in it
		if body == nil || strings.HasSuffix(path, ".json") {
			continue
		}
		for _, b := range body.Blocks {
			switch {
			case b.Type == "variable" && len(b.Labels) == 1:
				d.blocks = append(d.blocks, definition{b.Labels[0], string(b.Range().SliceBytes(m.sources[path])), i >= len(m.primary)})
			case b.Type == "locals":
				maps.Copy(d.all, b.Body.Attributes)
			}
		}
	}
	return d
}

// add adds what an expression refers to, and what that refers to.
func (d *definitions) add(x hcl.Expression) error {
	for _, t := range x.Variables() {
		switch t.RootName() {
		case "path", "terraform":
			continue
		case "var", "local":
		default:
			return fmt.Errorf("refers to %s; before a run only variables and local values have values", t.RootName())
		}
		name, ok := attributeName(t)
		if !ok {
			return fmt.Errorf("refers to all of %s", t.RootName())
		}
		if t.RootName() == "var" {
			d.variables[name] = true
			if !slices.ContainsFunc(d.blocks, func(b definition) bool { return b.name == name }) {
				return fmt.Errorf("refers to var.%s, which no .tf file of the module declares", name)
			}
			continue
		}
		if _, had := d.locals[name]; had {
			continue
		}
		attr := d.all[name]
		if attr == nil {
			return fmt.Errorf("refers to local.%s, which no .tf file of the module defines", name)
		}
		d.locals[name] = string(attr.Expr.Range().SliceBytes(d.m.sources[attr.SrcRange.Filename]))
		if err := d.add(attr.Expr); err != nil {
			return fmt.Errorf("refers to local.%s, which %w", name, err)
		}
	}
	return nil
}

// attributeName is NAME of var.NAME.
func attributeName(t hcl.Traversal) (string, bool) {
	if len(t) < 2 {
		return "", false
	}
	a, ok := t[1].(hcl.TraverseAttr)
	return a.Name, ok
}

// write writes a configuration of what is needed.
func (d *definitions) write(dir string) error {
	var main, override strings.Builder
	for _, b := range d.blocks {
		to := &main
		if b.override {
			to = &override
		}
		if d.variables[b.name] {
			fmt.Fprintf(to, "%s\n", b.text)
		}
	}
	main.WriteString("locals {\n")
	for _, name := range slices.Sorted(maps.Keys(d.locals)) {
		fmt.Fprintf(&main, "  %s = (%s\n)\n", name, d.locals[name])
	}
	fmt.Fprintf(&main, "  %s = {\n%s\n}\n}\n", askedLocal, strings.Join(d.asked, "\n"))
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "main.tf"), []byte(main.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "main_override.tf"), []byte(override.String()), 0o600))
}
