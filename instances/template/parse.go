// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/seed-141914ff/okara/internal/syntax"
)

const (
	// MaxFile bounds a file of templates, in bytes.
	MaxFile      = 256 << 10
	maxTemplates = 200 // per file
)

// Known holds the names that templates may use; a nil list accepts any.
type Known struct {
	Credentials []string
	Config      []string // names of free values
	Executors   []string // nil: the local one only
}

// Parse parses HCL, or JSON if the file is named .json. Each mistake is an error "template NAME:
// FILE:LINE: …"; several are joined.
func Parse(src []byte, file string, known Known) ([]*Template, error) {
	if len(src) > MaxFile {
		return nil, fmt.Errorf("%s:1: %d bytes, a file of templates has at most %d", file, len(src), MaxFile)
	}
	parsed, diags := syntax.Parse(src, file)
	if diags.HasErrors() {
		return nil, positionErrors("", diags)
	}
	content, diags := parsed.Body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "template", LabelNames: []string{"name"}}}})
	if diags.HasErrors() {
		return nil, positionErrors("", diags)
	}
	if len(content.Blocks) > maxTemplates {
		return nil, fmt.Errorf("%s:1: %d templates, a file has at most %d", file, len(content.Blocks), maxTemplates)
	}
	var list []*Template
	var all []error
	seen := map[string]bool{}
	for _, block := range content.Blocks {
		r := &templateReader{src: parsed.Bytes, known: known, name: block.Labels[0]}
		if seen[r.name] {
			r.failAt(block.DefRange, "duplicate")
		}
		seen[r.name] = true
		t := r.readTemplate(block)
		if r.errs != nil {
			all = append(all, r.errs...)
			continue
		}
		list = append(list, t)
	}
	if all != nil {
		return nil, errors.Join(all...)
	}
	return list, nil
}

func positionErrors(template string, diags hcl.Diagnostics) error {
	var all []error
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		at := hcl.Range{}
		if d.Subject != nil {
			at = *d.Subject
		}
		all = append(all, placeError(template, at, strings.TrimSuffix(d.Detail, ".")))
	}
	return errors.Join(all...)
}

func placeError(template string, at hcl.Range, text string) error {
	if template == "" {
		return fmt.Errorf("%s:%d: %s", at.Filename, at.Start.Line, text)
	}
	return fmt.Errorf("template %s: %s:%d: %s", template, at.Filename, at.Start.Line, text)
}

// templateReader reads one template and collects its errors.
type templateReader struct {
	src   []byte // the file
	known Known
	name  string
	names names
	errs  []error
}

func (r *templateReader) failAt(at hcl.Range, format string, args ...any) {
	r.errs = append(r.errs, placeError(r.name, at, fmt.Sprintf(format, args...)))
}

func (r *templateReader) readTemplate(block *hcl.Block) *Template {
	var b templateBlock
	if diags := syntax.DecodeBody(block.Body, block.DefRange.Filename, &b); diags.HasErrors() {
		r.errs = append(r.errs, positionErrors(r.name, diags))
		return nil
	}
	t := &Template{
		Name: r.name, Title: b.Title, Description: b.Description, Icon: b.Icon, Category: b.Category,
		Enabled: valueOr(b.Enabled, true), Visible: valueOr(b.Visible, true),
		Executor: valueOr(b.Executor, ExecutorLocal), Owner: valueOr(b.Owner, OwnerUser), Groups: b.Groups, PerOwner: b.PerOwner, Max: b.Max,
		Approval: valueOr(b.Approval, ApprovalNone), Outputs: b.Outputs, Credentials: b.Credentials, RequireLock: b.RequireLock,
		Timeout: time.Hour, Retries: valueOr(b.Retries, defaultRetries), Protection: b.Protection, Update: valueOr(b.Update, updateManual),
	}
	if m := b.Module; m != nil {
		t.Module = ModuleRef{Address: m.Address, Version: m.Version, Path: m.Path}
	}
	if b.Chart != nil {
		t.Chart = r.readConstant(b.Chart)
	}
	if b.Timeout != nil {
		t.Timeout = r.duration(b.Body, "timeout", *b.Timeout)
	}
	for _, text := range b.Notices {
		t.Notices = append(t.Notices, r.duration(b.Body, "notices", text))
	}
	if b.TTL != nil {
		t.TTL = b.TTL.TTL(r.failAt)
		t.Endless = t.TTL == nil
	}
	if p := b.Pool; p != nil {
		t.Pool = &PoolSize{Size: p.Size, Max: p.Max, WhenEmpty: valueOr(p.WhenEmpty, poolCreate)}
		if p.MaxAge != nil {
			t.Pool.MaxAge = r.duration(p.Body, "max_age", *p.MaxAge)
		}
	}
	if d := b.Drift; d != nil {
		t.Drift = &Drift{Every: r.duration(d.Body, "every", d.Every), Remediate: d.Remediate}
	}
	if c := b.Cost; c != nil {
		t.Cost = &Cost{Hourly: c.Hourly, Currency: c.Currency}
	}
	t.Schedule = r.readSchedule(b.Schedule)
	for _, p := range b.Parameters {
		t.Parameters = append(t.Parameters, r.readParameter(p))
		r.names.parameters = append(r.names.parameters, p.Name)
	}
	r.names.anonymous = t.Pool != nil
	r.names.config = r.known.Config
	r.readExpressions(t, b)
	r.checkBlock(t, b)
	return t
}

// valueOr returns the value that p points to, or otherwise if p is nil.
func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func (r *templateReader) duration(body hcl.Body, name, text string) time.Duration {
	d, ok := parseDuration(text)
	if !ok {
		r.failAt(attributeRange(body, name), "%s: %q is not a duration such as 30m or 72h", name, text)
	}
	return d
}

func (r *templateReader) readParameter(b parameter) Parameter {
	p := Parameter{
		Name: b.Name, Title: b.Title, Help: b.Help, Pattern: b.Pattern, Minimum: b.Minimum, Maximum: b.Maximum,
		Update: b.Update, Link: valueOr(b.Link, mayLink(b.Name)),
	}
	if b.Default != nil {
		p.Default = r.readConstant(b.Default)
	}
	if b.Enum != nil {
		p.Enum = r.values(b.Enum.Range, "enum must be a list of values", b.Enum.Expr)
	}
	if b.When != nil {
		p.When = r.readWhen(*b.When)
	}
	return p
}

// readWhen returns the condition of a parameter: the values that other parameters must have.
func (r *templateReader) readWhen(a hcl.Attribute) map[string][]json.RawMessage {
	const form = `when must be an object with a list of values for each parameter, such as { size = ["large"] }`
	pairs, diags := hcl.ExprMap(a.Expr)
	if diags.HasErrors() || len(pairs) == 0 {
		r.failAt(a.Range, form)
	}
	all := map[string][]json.RawMessage{}
	for _, pair := range pairs {
		key, diags := pair.Key.Value(nil)
		if diags.HasErrors() || key.IsNull() || key.Type() != cty.String {
			r.failAt(pair.Key.Range(), form)
			continue
		}
		name := key.AsString()
		if _, twice := all[name]; twice {
			r.failAt(pair.Key.Range(), "when: %.40q appears twice", name)
		}
		all[name] = r.values(pair.Value.Range(), form, pair.Value)
	}
	return all
}

// values returns the JSON values of a list, or the error wanted.
func (r *templateReader) values(at hcl.Range, wanted string, e hcl.Expression) (all []json.RawMessage) {
	list, diags := hcl.ExprList(e)
	if diags.HasErrors() || len(list) == 0 {
		r.failAt(at, "%s", wanted)
	}
	for _, item := range list {
		all = append(all, r.valueJSON(item))
	}
	return all
}

// readConstant returns the JSON of an attribute without references.
func (r *templateReader) readConstant(a *hcl.Attribute) json.RawMessage { return r.valueJSON(a.Expr) }

func (r *templateReader) valueJSON(e hcl.Expression) json.RawMessage {
	v, diags := e.Value(nil)
	if diags.HasErrors() {
		r.errs = append(r.errs, positionErrors(r.name, diags))
		return nil
	}
	b, err := ctyjson.SimpleJSONValue{Value: v}.MarshalJSON()
	if err != nil {
		r.failAt(e.Range(), "%v", err)
	}
	if b, err = plainJSON(b, maxDepth); err != nil {
		r.failAt(e.Range(), "%v", err)
	}
	return b
}

// templateBlock is the body of a template as written.
type templateBlock struct {
	Title       string          `hcl:"title,optional"`
	Description string          `hcl:"description,optional"`
	Icon        string          `hcl:"icon,optional"`
	Category    string          `hcl:"category,optional"`
	Enabled     *bool           `hcl:"enabled"`
	Visible     *bool           `hcl:"visible"`
	Module      *moduleBlock    `hcl:"module,block"`
	Chart       *hcl.Attribute  `hcl:"chart"`
	Executor    *string         `hcl:"executor"`
	Owner       *string         `hcl:"owner"`
	Groups      []string        `hcl:"groups,optional"`
	PerOwner    int             `hcl:"per_owner,optional"`
	Max         int             `hcl:"max,optional"`
	Approval    *string         `hcl:"approval"`
	TTL         *Lifetime       `hcl:"ttl,block"`
	Pool        *poolBlock      `hcl:"pool,block"`
	Parameters  []parameter     `hcl:"parameter,block"`
	Inputs      *hcl.Attribute  `hcl:"inputs"`
	Outputs     []string        `hcl:"outputs,optional"`
	Connection  *connectionPart `hcl:"connection,block"`
	Credentials []string        `hcl:"credentials,optional"`
	RequireLock bool            `hcl:"require_module_lock,optional"`
	Timeout     *string         `hcl:"timeout"`
	Retries     *int            `hcl:"retries"`
	Protection  bool            `hcl:"protection,optional"`
	Drift       *driftBlock     `hcl:"drift,block"`
	Update      *string         `hcl:"update"`
	Notices     []string        `hcl:"notices,optional"`
	Cost        *costBlock      `hcl:"cost,block"`
	Schedule    *scheduleBlock  `hcl:"schedule,block"`
	Body        hcl.Body        `hcl:",body"`
}

type moduleBlock struct {
	Address string   `hcl:"address"`
	Version string   `hcl:"version,optional"`
	Path    string   `hcl:"path,optional"`
	Body    hcl.Body `hcl:",body"`
}

type poolBlock struct {
	Size      int      `hcl:"size"`
	Max       int      `hcl:"max,optional"`
	MaxAge    *string  `hcl:"max_age"`
	WhenEmpty *string  `hcl:"when_empty"`
	Body      hcl.Body `hcl:",body"`
}

type parameter struct {
	Name    string         `hcl:"name,label"`
	Title   string         `hcl:"title,optional"`
	Help    string         `hcl:"help,optional"`
	Default *hcl.Attribute `hcl:"default"`
	Enum    *hcl.Attribute `hcl:"enum"`
	Pattern string         `hcl:"pattern,optional"`
	Minimum *float64       `hcl:"minimum"`
	Maximum *float64       `hcl:"maximum"`
	Update  bool           `hcl:"update,optional"`
	Link    *bool          `hcl:"link"`
	When    *hcl.Attribute `hcl:"when"`
	Body    hcl.Body       `hcl:",body"`
}

type connectionPart struct {
	Type    *string        `hcl:"type"`
	URL     *hcl.Attribute `hcl:"url"`
	Message *hcl.Attribute `hcl:"message"`
	Body    hcl.Body       `hcl:",body"`
}

type driftBlock struct {
	Every     string   `hcl:"every"`
	Remediate bool     `hcl:"remediate,optional"`
	Body      hcl.Body `hcl:",body"`
}

type costBlock struct {
	Hourly   float64  `hcl:"hourly"`
	Currency string   `hcl:"currency,optional"`
	Body     hcl.Body `hcl:",body"`
}
