// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// fieldErrors says where a value does not fit. A value is never repeated: it may
// be secret.
func fieldErrors(err error) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return &FieldError{Text: err.Error()}
	}
	var all []error
	collect(invalid, &all)
	return errors.Join(all[:min(len(all), maxFieldProblems)]...)
}

func collect(e *jsonschema.ValidationError, all *[]error) {
	for _, cause := range e.Causes {
		collect(cause, all)
	}
	if len(e.Causes) > 0 {
		return
	}
	at := pointer(e.InstanceLocation...)
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*all = append(*all, &FieldError{at + pointer(name), "is missing"})
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			*all = append(*all, &FieldError{at + pointer(name), "there is no such field"})
		}
	default:
		*all = append(*all, &FieldError{at, problem(k)})
	}
}

// problem says in words what a schema complains of.
func problem(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("is %s, not %s", k.Got, strings.Join(k.Want, " or "))
	case *kind.Enum:
		return "is none of " + written(k.Want)
	case *kind.Const:
		return "is not " + written([]any{k.Want})
	case *kind.Pattern:
		return "does not match " + k.Want
	case *kind.Minimum:
		return "is less than " + decimal(k.Want)
	case *kind.Maximum:
		return "is more than " + decimal(k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has %d elements, at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d elements, at most %d", k.Got, k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("has %d characters, at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters, at most %d", k.Got, k.Want)
	case *kind.UniqueItems:
		return "has an element twice"
	}
	return "is not allowed: " + strings.Join(k.KeywordPath(), "/")
}

func written(values []any) string {
	var list []string
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			return "the values allowed"
		}
		list = append(list, string(b))
	}
	return strings.Join(list, ", ")
}

func decimal(r *big.Rat) string {
	f, _ := r.Float64()
	return fmt.Sprint(f)
}
