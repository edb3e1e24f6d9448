// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// evaluatedName is a file with a digest of the values that the last init evaluated.
const evaluatedName = "okara-evaluated"

// digestOf returns a digest of values, "" if there are none.
func digestOf(values map[string]cty.Value) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	hash := sha256.New()
	for _, at := range slices.Sorted(maps.Keys(values)) {
		b, err := ctyjson.Marshal(values[at], cty.DynamicPseudoType)
		if err != nil {
			return "", err
		}
		hash.Write(b) // not the key, since a position may change without the value
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// checkEvaluated refuses a command whose block has other values than at init: a saved plan would be
// applied with other keys and replicas.
func checkEvaluated(c Config, dataDir string) error {
	if c.evaluated == "" || c.Recorded == "" { // not initialized, which the tool reports
		return nil
	}
	was, err := os.ReadFile(filepath.Join(dataDir, evaluatedName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(was) == c.evaluated {
		return nil
	}
	return errors.New("the variables or local values of the backend block changed since init\nhint: pass the same -var and -var-file as to init, even to apply a saved plan, or set TF_VAR_NAME; or run init -reconfigure")
}

// saveEvaluated keeps the digest of an init that succeeded.
func saveEvaluated(c Config, dataDir string) error {
	path := filepath.Join(dataDir, evaluatedName)
	if c.evaluated != "" {
		return files.Replace(path, []byte(c.evaluated), 0o600)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// evaluator lets the tool evaluate expressions in a backend block, which may refer to
// variables and local values since OpenTofu 1.8.
//
// Only the tool knows its functions and the sources of variable values. So its console
// is started in a separate directory with the variables and local values that the
// expressions need, and with the files of values. It has no backend, provider or module,
// so no init is needed. Expressions that depend on the directory itself are refused:
// path.module and the like, and functions that read files, would have other values there.
type evaluator struct {
	tool   Tool
	dir    string
	flags  []string // -var and -var-file
	getenv func(string) string
}

// refuseReferences is used for a tool that does not evaluate backend blocks.
func refuseReferences(m module) (map[string]cty.Value, error) {
	if found := findReferences(m.backend.Body); len(found) > 0 {
		return nil, found[0].errorAt(errors.New("refers to variables or local values, which Terraform does not evaluate here"))
	}
	return nil, nil
}

// errLeftOut says that only the tool knows values in the block, and this command needs none.
var errLeftOut = errors.New("the backend block is left out")

// leaveOut is used for a command that reads no state.
func leaveOut(m module) (map[string]cty.Value, error) {
	if len(findReferences(m.backend.Body)) > 0 {
		return nil, errLeftOut
	}
	return nil, nil
}

// evaluateBlock evaluates the block's arguments that need it, by source range.
func (e *evaluator) evaluateBlock(ctx context.Context, m module) (map[string]cty.Value, error) {
	found := findReferences(m.backend.Body)
	if len(found) == 0 {
		return nil, nil
	}
	needed := newDefinitions(m)
	for i, r := range found {
		if err := needed.add(r.attr.Expr); err != nil {
			return nil, r.errorAt(err)
		}
		written := r.attr.Expr.Range()
		needed.asked = append(needed.asked, fmt.Sprintf("%q = (%s\n)", strconv.Itoa(i), expressionSource(written, m.sources[written.Filename])))
	}
	answers, err := e.values(ctx, needed)
	if err != nil {
		return nil, found[0].errorAt(fmt.Errorf("refers to variables or local values: %w", err))
	}
	values := map[string]cty.Value{}
	for i, r := range found {
		values[r.attr.Range.String()] = answers[strconv.Itoa(i)]
	}
	return values, nil
}

// values returns the values of the requested expressions, by their number.
func (e *evaluator) values(ctx context.Context, needed *definitions) (values map[string]cty.Value, err error) {
	dir, remove, err := files.TempDir("")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := errors.Join(needed.writeConfig(dir), e.link(dir)); err != nil {
		return nil, err
	}
	answer, err := e.askConsole(ctx, dir, "base64encode(jsonencode(local."+askedLocal+"))\n", needed)
	if err != nil {
		return nil, err
	}
	return decodeValues(answer)
}

// askConsole sends one line to the tool's console and returns the answer.
func (e *evaluator) askConsole(ctx context.Context, dir, question string, needed *definitions) (string, error) {
	flags, err := e.givenFlags(needed)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, e.tool.Path, append([]string{"console", "-no-color"}, flags...)...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(question)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TF_CLI_ARGS") })
	cmd.Env = append(cmd.Env, "TF_DATA_DIR="+filepath.Join(dir, ".data"), "TF_WORKSPACE="+SelectedWorkspace(e.dir, e.getenv), "TF_INPUT=0", "NO_COLOR=1",
		"TF_CLI_CONFIG_FILE="+os.DevNull, extendAsking("", e.tool.Path))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s console: %w\n%s", filepath.Base(e.tool.Path), err, strings.TrimSpace(stderr.String()))
	}
	answer := strings.TrimSpace(string(out))
	answer = answer[strings.LastIndexByte(answer, '\n')+1:] // warnings precede the value
	if strings.Contains(answer, "(sensitive value)") {
		return "", errors.New("one of them is sensitive, and backend settings are stored unencrypted")
	}
	if strings.Contains(answer, "(known after apply)") {
		return "", errors.New("one of them has no value, or one of the wrong type; set it with -var, a .tfvars file or TF_VAR_NAME")
	}
	return strings.Trim(answer, `"`), nil
}

// givenFlags returns flags of needed variables: the tool refuses undeclared ones.
func (e *evaluator) givenFlags(needed *definitions) (flags []string, err error) {
	for _, f := range e.flags {
		if value, file := strings.CutPrefix(f, "-var-file="); file {
			if !filepath.IsAbs(value) {
				value = filepath.Join(e.dir, value)
			}
			if value, err = filepath.Abs(value); err != nil {
				return nil, err
			}
			if info, err := os.Stat(value); err == nil && !info.Mode().IsRegular() {
				return nil, fmt.Errorf("-var-file %s can be read only once, and the tool itself reads it too", value)
			}
			flags = append(flags, "-var-file="+value)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(f, "-var="), "=")
		if needed.variables[strings.TrimSpace(name)] {
			flags = append(flags, f)
		}
	}
	return flags, nil
}

// link links the files with variable values into the directory.
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
		base := strings.TrimSuffix(name, ".json")
		if base != "terraform.tfvars" && !strings.HasSuffix(base, ".auto.tfvars") || isIgnored(name) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeValues decodes the console's answer: JSON in base64, which is not escaped.
func decodeValues(answer string) (map[string]cty.Value, error) {
	b, err := base64.StdEncoding.DecodeString(answer)
	if err != nil {
		return nil, fmt.Errorf("the console did not return a value: %w", err)
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
	json      map[string]string // file in JSON, by var.NAME and local.NAME
	asked     []string          // attributes of the object to evaluate
}

// askedLocal is the local value with that object, named as no user would.
const askedLocal = "okara--asked--"

// definition is a block that defines a variable, or a part of it in an override file.
type definition struct {
	name     string
	text     string
	override bool
}

func newDefinitions(m module) *definitions {
	d := &definitions{m: m, variables: map[string]bool{}, locals: map[string]string{}, all: map[string]*hclsyntax.Attribute{}, json: map[string]string{}}
	for i, path := range slices.Concat(m.primary, m.override) {
		if strings.HasSuffix(path, ".json") {
			d.addJSON(path)
			continue
		}
		body, _ := syntax.ParseBody(m.sources[path], path) // the tool reports its errors
		if body == nil {
			continue
		}
		for _, b := range body.Blocks {
			switch {
			case b.Type == "variable" && len(b.Labels) == 1:
				d.blocks = append(d.blocks, definition{b.Labels[0], d.variableBlock(b, m.sources[path]), i >= len(m.primary)})
			case b.Type == "locals":
				maps.Copy(d.all, b.Body.Attributes)
			}
		}
	}
	return d
}

// variableBlock returns a variable without nested blocks, which the tool checks in the real module.
func (d *definitions) variableBlock(b *hclsyntax.Block, src []byte) string {
	var text strings.Builder
	fmt.Fprintf(&text, "variable %q {\n", b.Labels[0])
	for _, name := range slices.Sorted(maps.Keys(b.Body.Attributes)) {
		fmt.Fprintf(&text, "%s\n", b.Body.Attributes[name].SrcRange.SliceBytes(src))
	}
	text.WriteString("}\n")
	return text.String()
}

// addJSON records the definitions in a JSON file, which are not evaluated here.
func (d *definitions) addJSON(path string) {
	var file struct {
		Variable json.RawMessage `json:"variable"`
		Locals   json.RawMessage `json:"locals"`
	}
	if json.Unmarshal(d.m.sources[path], &file) != nil {
		return // the tool reports its errors
	}
	for kind, raw := range map[string]json.RawMessage{"var": file.Variable, "local": file.Locals} {
		var list []map[string]json.RawMessage
		var one map[string]json.RawMessage
		if json.Unmarshal(raw, &one) == nil {
			list = append(list, one)
		} else if json.Unmarshal(raw, &list) != nil {
			continue
		}
		for _, names := range list {
			for name := range names {
				d.json[kind+"."+name] = path
			}
		}
	}
}

// checkPure refuses functions whose value depends on the current directory.
func checkPure(x hcl.Expression) error {
	node, ok := x.(hclsyntax.Node)
	if !ok {
		return errors.New("is written in JSON; write the block in a .tf file")
	}
	var found error
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		if !ok {
			return nil
		}
		name := strings.TrimPrefix(call.Name, "core::")
		if strings.HasPrefix(name, "file") || strings.HasPrefix(name, "templatefile") || name == "abspath" || strings.Contains(name, "::") {
			found = fmt.Errorf("calls %s, which depends on more than the values of variables", call.Name)
		}
		return nil
	})
	return found
}

// add adds the definitions that an expression refers to, and those that they refer to.
func (d *definitions) add(x hcl.Expression) error {
	if err := checkPure(x); err != nil {
		return err
	}
	for _, t := range x.Variables() {
		switch t.RootName() {
		case "terraform":
			continue
		case "var", "local":
		default:
			return fmt.Errorf("refers to %s; only variables and local values are known before a run", t.RootName())
		}
		name, ok := attributeName(t)
		if !ok {
			return fmt.Errorf("refers to all of %s", t.RootName())
		}
		if file := d.json[t.RootName()+"."+name]; file != "" {
			return fmt.Errorf("refers to %s.%s, which is also defined in %s; okara reads .tf files only", t.RootName(), name, file)
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

func attributeName(t hcl.Traversal) (string, bool) {
	if len(t) < 2 {
		return "", false
	}
	a, ok := t[1].(hcl.TraverseAttr)
	return a.Name, ok
}

func (d *definitions) writeConfig(dir string) error {
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
