// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"errors"
	"fmt"
	"path"
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
)

const (
	// MaxDepth bounds a syntax tree; large modules reach 30, a huge condition hundreds.
	MaxDepth = 1000
	// maxTokens bounds a file: two megabytes of dense configuration.
	maxTokens = 1 << 19

	maxDigits   = 400 // of a number: a float64 written out has 309
	maxExponent = 308 // the largest of a float64
)

// ErrTooComplex means that a text exceeds a bound of this package.
var ErrTooComplex = errors.New("too complex")

// Parse parses HCL, or JSON in a name.json. The file is nil beyond a bound, or as invalid JSON.
func Parse(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	file, diags, _ := ParseSource(src, name)
	return file, diags
}

// ParseSource is [Parse] with why a file is nil: it wraps [ErrTooComplex], or is a
// [*json.SyntaxError] after file and line.
func ParseSource(src []byte, name string) (*hcl.File, hcl.Diagnostics, error) {
	src, err := checkSource(src, name)
	if err != nil {
		return nil, errorDiagnostics(err, name), err
	}
	if path.Ext(name) == ".json" {
		file, diags := hcljson.Parse(src, name)
		return file, diags, nil
	}
	file, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	return file, diags, nil
}

// ParseBody parses a file in HCL whose values are computed while it is read.
func ParseBody(src []byte, name string) (*hclsyntax.Body, hcl.Diagnostics) {
	if err := checkTokens(src, name, hclsyntax.LexConfig); err != nil {
		return nil, errorDiagnostics(err, name)
	}
	file, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	body := file.Body.(*hclsyntax.Body)
	if err := checkBody(body); err != nil {
		return nil, errorDiagnostics(err, name)
	}
	return body, diags
}

// Decode parses a file, and fills to by gohcl's tags.
func Decode(src []byte, name string, to any) hcl.Diagnostics {
	file, diags := Parse(src, name)
	if diags.HasErrors() {
		return diags
	}
	return DecodeBody(file.Body, name, to)
}

// DecodeBody fills to with a parsed body, paths absolute as in [DecodeParts].
func DecodeBody(body hcl.Body, name string, to any) hcl.Diagnostics {
	if native, ok := body.(*hclsyntax.Body); ok {
		if err := checkBody(native); err != nil {
			return errorDiagnostics(err, name)
		}
	}
	diags := gohcl.DecodeBody(body, nil, to)
	anchorPaths(name, reflect.ValueOf(to))
	return diags
}

// ParseExpression parses one expression in HCL.
func ParseExpression(src, name string) (hclsyntax.Expression, hcl.Diagnostics) {
	if err := checkTokens([]byte(src), name, hclsyntax.LexExpression); err != nil {
		return nil, errorDiagnostics(err, name)
	}
	return hclsyntax.ParseExpression([]byte(src), name, hcl.InitialPos)
}

// ParseTemplate parses text with ${…} and %{…}, as in JSON.
func ParseTemplate(src, name string) (hclsyntax.Expression, hcl.Diagnostics) {
	if err := checkTokens([]byte(src), name, hclsyntax.LexTemplate); err != nil {
		return nil, errorDiagnostics(err, name)
	}
	return hclsyntax.ParseTemplate([]byte(src), name, hcl.InitialPos)
}

// checkSource checks a file, and returns what to parse: JSON with escapes.
func checkSource(src []byte, name string) ([]byte, error) {
	if path.Ext(name) == ".json" {
		return checkJSON(src, name)
	}
	return src, checkTokens(src, name, hclsyntax.LexConfig)
}

// boundError is an exceeded bound with its position, or a JSON syntax error.
type boundError struct {
	at   hcl.Range
	what string
	err  error
}

func (e *boundError) Error() string {
	return fmt.Sprintf("%s:%d: %s: %v", e.at.Filename, e.at.Start.Line, e.what, e.err)
}
func (e *boundError) Unwrap() error { return e.err }

func refusedAt(at hcl.Range, format string, args ...any) error {
	return &boundError{at: at, what: fmt.Sprintf(format, args...), err: ErrTooComplex}
}

func errorDiagnostics(err error, name string) hcl.Diagnostics {
	d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Cannot be read", Detail: err.Error(), Subject: &hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}}
	if e, ok := errors.AsType[*boundError](err); ok {
		d.Subject = &e.at
		d.Detail = fmt.Sprintf("%s: %v", e.what, e.err)
	}
	return hcl.Diagnostics{d}
}
