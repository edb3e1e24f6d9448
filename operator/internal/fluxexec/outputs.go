// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Output is a value that a run made. Whether it is sensitive is not known here.
type Output struct {
	Type  json.RawMessage // as OpenTofu writes types: "string", ["list","string"]
	Value json.RawMessage
}

// Text is a string as it is, and anything else as JSON.
func (o Output) Text() string {
	var s string
	if string(o.Type) == typeString && json.Unmarshal(o.Value, &s) == nil {
		return s
	}
	return string(o.Value)
}

const typeString = `"string"`

// typeSuffix of a key marks the type of an output that is no string.
const typeSuffix = "__type"

// ReadOutputs makes outputs of the Secret that tofu-controller writes (T6): a string is
// as it is, all else is JSON, with its type under NAME__type.
func ReadOutputs(data map[string][]byte) (map[string]Output, error) {
	all := map[string]Output{}
	for name, value := range data {
		if of, is := strings.CutSuffix(name, typeSuffix); is && data[of] != nil {
			continue
		}
		o := Output{Type: json.RawMessage(typeString)}
		var err error
		if kind, is := data[name+typeSuffix]; !is {
			o.Value, err = json.Marshal(string(value))
		} else if o.Type, err = compact(kind); err == nil {
			o.Value, err = compact(value)
		}
		if err != nil {
			return nil, fmt.Errorf("output %s is neither a string nor JSON with its type", name) // no part of it, which may be a secret
		}
		all[name] = o
	}
	return all, nil
}

func compact(text []byte) (json.RawMessage, error) {
	var b bytes.Buffer
	err := json.Compact(&b, text)
	return b.Bytes(), err
}
