// SPDX-License-Identifier: Apache-2.0

package states

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

const (
	// maxDepth bounds the nesting of an attribute's value. Those of providers nest about
	// ten levels.
	maxDepth = 1000
	// maxPaths bounds the total size of the paths of one file: each path repeats the names
	// above it, so a long name above many values takes many times the size of the file.
	maxPaths = 256 << 20
)

var (
	errDepth = fmt.Errorf("nested more than %d deep", maxDepth)
	errPaths = errors.New("too many values below long names")
)

// value is a leaf of a resource or output.
type value struct {
	json      []byte
	sensitive bool
}

// flattener collects the leaves below a JSON value.
type flattener struct {
	values map[string]value
	marks  map[string]bool
	left   *int // for paths

	src []byte
	dec *json.Decoder
}

// add reads src in one pass: unmarshalling it level by level would read a value below n
// levels n times.
func (f *flattener) add(src json.RawMessage, path string, sensitive bool) error {
	if len(src) == 0 {
		return nil
	}
	f.src = src
	f.dec = json.NewDecoder(bytes.NewReader(src))
	f.dec.UseNumber()
	return f.next(path, 0, sensitive)
}

// next reads one value, whose path is given.
func (f *flattener) next(path string, depth int, sensitive bool) error {
	if *f.left -= len(path); *f.left < 0 {
		return errPaths
	}
	if depth > maxDepth {
		return errDepth
	}
	sensitive = sensitive || f.marks[path]
	start := f.dec.InputOffset()
	t, err := f.dec.Token()
	if err != nil {
		return err
	}
	raw := bytes.TrimLeft(f.src[start:f.dec.InputOffset()], " \t\r\n,:")
	if t == json.Delim('{') || t == json.Delim('[') {
		if f.dec.More() {
			return f.children(t == json.Delim('{'), path, depth+1, sensitive)
		}
		raw = []byte{raw[0], raw[0] + 2} // the brackets without their content
		if _, err := f.dec.Token(); err != nil {
			return err
		}
	}
	f.values[path] = value{json: raw, sensitive: sensitive}
	return nil
}

// children reads the members of an object or the elements of a list, and the end of it.
func (f *flattener) children(object bool, path string, depth int, sensitive bool) error {
	for i := 0; f.dec.More(); i++ {
		below := fmt.Sprintf("%s[%d]", path, i)
		secret := sensitive
		if object {
			t, err := f.dec.Token()
			if err != nil {
				return err
			}
			name, _ := t.(string)
			below = joinPath(path, name)
			secret = sensitive || deniedName(name)
		}
		if err := f.next(below, depth, secret); err != nil {
			return err
		}
	}
	_, err := f.dec.Token()
	return err
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// deniedName reports whether an attribute's name suggests that its value is secret.
func deniedName(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	for _, part := range [...]string{
		"password", "passwd", "passphrase", "secret", "token", "private_key", "privatekey", "api_key", "apikey",
		"access_key", "client_key", "signing_key", "credential", "connection_string", "kubeconfig", "kube_config",
	} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
