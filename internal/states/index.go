// SPDX-License-Identifier: Apache-2.0

package states

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrEncrypted means that OpenTofu encrypted a state, which cannot be compared here.
var ErrEncrypted = errors.New("the state is encrypted by OpenTofu; pull both versions and compare them with its key")

// Document is a state file, which must not change, indexed by address; values are read when asked
// for. Zero has no address.
type Document struct {
	state   []byte
	entries []entry // sorted by address, each address once
	rest    members // of the file, which are not compared
	old     bool    // of a version before 4
}

// Parse reads a state file, which must not change afterwards. The error may be [ErrEncrypted].
func Parse(state []byte) (*Document, error) {
	d, err := indexState(state)
	if err == nil {
		err = d.checkFlattened()
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// entry is an instance of a resource, an output or a check.
type entry struct {
	address string
	of      *block
	json    []byte // its object in the file
}

// block is what all instances of a resource share.
type block struct {
	Resource         // without Address
	facts    members // those that are compared: the provider
}

// members are the members of an object by name, as they are in the file.
type members map[string][]byte

// newDecoder reads text as encoding/json does: names may be repeated, the last one counts.
func newDecoder(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// eachMember calls do with each name of an object; do reads the value.
func eachMember(dec *jsontext.Decoder, do func(name string) error) error {
	if dec.PeekKind() != '{' {
		return skipOther(dec, "an object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if err := do(name.String()); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// eachElement calls do for each element of a list, which do reads.
func eachElement(dec *jsontext.Decoder, do func(i int) error) error {
	if dec.PeekKind() != '[' {
		return skipOther(dec, "a list")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		if err := do(i); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// skipOther skips null where a list or an object is expected; anything else is an error.
func skipOther(dec *jsontext.Decoder, want string) error {
	kind := dec.PeekKind()
	if err := dec.SkipValue(); err != nil || kind == 'n' {
		return err
	}
	return fmt.Errorf("%s expected", strings.TrimPrefix(strings.TrimPrefix(want, "an "), "a "))
}

// membersOf reads an object.
func membersOf(dec *jsontext.Decoder) (members, error) {
	all := members{}
	err := eachMember(dec, func(name string) (err error) {
		all[name], err = dec.ReadValue()
		return err
	})
	return all, err
}

// textMember returns a member that is a string, else "".
func (m members) textMember(name string) string {
	b, err := jsontext.AppendUnquote(nil, m[name])
	if err != nil {
		return ""
	}
	return string(b)
}

// indexState reads a state file of version 1 to 4. The error may be [ErrEncrypted].
func indexState(state []byte) (*Document, error) {
	d := &Document{state: state, rest: members{}}
	dec := newDecoder(state)
	version := int64(4)
	lists := map[string]bool{}
	err := eachMember(dec, func(name string) error {
		if lists[name] {
			return fmt.Errorf("%s is there twice", name)
		}
		lists[name] = slices.Contains([]string{"outputs", "resources", "modules", "check_results"}, name)
		switch name {
		case "outputs":
			return d.indexOutputs(dec)
		case "resources":
			return eachElement(dec, func(int) error { return d.indexResource(dec) })
		case "modules": // until version 3, of Terraform 0.11
			return eachElement(dec, func(int) error { return d.indexModule(dec) })
		case "check_results":
			return eachElement(dec, func(int) error { return d.indexCheck(dec) })
		}
		v, err := dec.ReadValue()
		d.rest[name] = v
		return err
	})
	if err == nil {
		if _, more := dec.ReadToken(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one JSON value")
		}
	}
	if err != nil {
		return nil, notState(err)
	}
	if v := d.rest["version"]; v != nil && !isNothing(v) {
		if _, err := fmt.Sscan(string(v), &version); err != nil || version < 1 || version > 4 {
			return nil, fmt.Errorf("unsupported state file: format version %.20s, expected 1 to 4", v)
		}
	}
	d.old = version < 4
	for _, name := range []string{"encrypted_data", "encryption_version"} {
		if v := d.rest[name]; v != nil && string(v) != "null" {
			return nil, ErrEncrypted
		}
	}
	slices.SortStableFunc(d.entries, func(a, b entry) int { return strings.Compare(a.address, b.address) })
	slices.Reverse(d.entries) // of one address twice, the last counts
	d.entries = slices.CompactFunc(d.entries, func(a, b entry) bool { return a.address == b.address })
	slices.Reverse(d.entries)
	return d, nil
}

// notState says where a file is not JSON, without its content.
func notState(err error) error {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		why := e.Err.Error()
		if strings.HasPrefix(why, "invalid character") {
			why = "invalid JSON"
		}
		return fmt.Errorf("not a state file: at byte %d: %s", e.ByteOffset, why)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	return fmt.Errorf("not a state file: %w", err)
}

func (d *Document) addEntry(address string, of *block, json []byte) {
	d.entries = append(d.entries, entry{address, of, json})
}

func (d *Document) indexOutputs(dec *jsontext.Decoder) error {
	return eachMember(dec, func(name string) error {
		v, err := dec.ReadValue()
		d.addEntry("output."+name, &block{Resource: Resource{Mode: ModeOutput, Name: name}}, v)
		return err
	})
}

func (d *Document) indexCheck(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	m, err := membersOf(newDecoder(v))
	if err == nil {
		d.addEntry("check_results "+m.textMember("config_addr"), &block{Resource: Resource{Mode: modeCheck}}, v)
	}
	return err
}

// indexResource reads a resource of version 4.
func (d *Document) indexResource(dec *jsontext.Decoder) error {
	m := members{}
	of := &block{facts: members{}}
	var instances []indexed
	err := eachMember(dec, func(name string) (err error) {
		if name == "instances" {
			instances = nil
			return eachElement(dec, func(int) error {
				i, err := d.indexInstance(dec)
				instances = append(instances, i)
				return err
			})
		}
		m[name], err = dec.ReadValue()
		return err
	})
	if err != nil {
		return err
	}
	of.Resource = Resource{Mode: m.textMember("mode"), Type: m.textMember("type"), Name: m.textMember("name"), Module: m.textMember("module"), Provider: m.textMember("provider")}
	for name, v := range m {
		if !slices.Contains([]string{"mode", "type", "name", "module", "each"}, name) {
			of.facts[name] = v
		}
	}
	address := of.address()
	for _, i := range instances {
		d.addEntry(address+i.suffix, of, i.json)
	}
	return nil
}

// address returns the address of a resource without its instances.
func (b *block) address() string {
	address := b.Type + "." + b.Name
	if b.Mode == ModeData {
		address = "data." + address
	}
	if b.Module != "" {
		address = b.Module + "." + address
	}
	return address
}

// indexed is an instance that was read, and how its address ends.
type indexed struct {
	json   []byte
	suffix string
}

// indexInstance reads an instance where it is in the file, without reading it twice.
func (d *Document) indexInstance(dec *jsontext.Decoder) (i indexed, err error) {
	kind := dec.PeekKind()
	start := dec.InputOffset()
	deposed := ""
	err = eachMember(dec, func(name string) error {
		switch name {
		case "index_key":
			v, err := dec.ReadValue()
			if i.suffix = ""; string(v) != "null" {
				i.suffix = "[" + string(shortString(v)) + "]"
			}
			return err
		case "deposed":
			v, err := dec.ReadValue()
			deposed = members{"": v}.textMember("")
			return err
		}
		return dec.SkipValue()
	})
	if deposed != "" {
		i.suffix += " (deposed " + deposed + ")"
	}
	if err == nil && kind == '{' {
		i.json = bytes.TrimLeft(d.state[start:dec.InputOffset()], " \t\r\n,:")
	}
	return i, err
}

// indexModule reads a module of version 1 to 3: its path, which begins with "root", and its
// resources by TYPE.NAME or data.TYPE.NAME, with an index at the end if there is a count.
func (d *Document) indexModule(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	m, err := membersOf(newDecoder(v))
	if err != nil {
		return err
	}
	var module []string
	steps := newDecoder(orNull(m["path"]))
	if err := eachElement(steps, func(int) error {
		v, err := steps.ReadValue()
		module = append(module, members{"": v}.textMember(""))
		return err
	}); err != nil {
		return err
	}
	path := ""
	if len(module) > 1 {
		path = "module." + strings.Join(module[1:], ".module.")
	} else if err := d.indexOutputs(newDecoder(orNull(m["outputs"]))); err != nil { // those of the root
		return err
	}
	resources := newDecoder(orNull(m["resources"]))
	return eachMember(resources, func(key string) error {
		v, err := membersOf(resources)
		if err == nil {
			err = d.indexOldResource(path, key, v)
		}
		return err
	})
}

func (d *Document) indexOldResource(module, key string, m members) error {
	of := &block{facts: members{"provider": m["provider"], "depends_on": m["depends_on"]}}
	of.Resource = Resource{Mode: ModeManaged, Module: module, Provider: m.textMember("provider")}
	if rest, data := strings.CutPrefix(key, "data."); data {
		of.Mode = ModeData
		key = rest
	}
	parts := strings.SplitN(key, ".", 3)
	of.Type = parts[0]
	suffix := ""
	if len(parts) > 1 {
		of.Name = parts[1]
	}
	if len(parts) > 2 {
		suffix = "[" + parts[2] + "]"
	}
	address := of.address() + suffix
	if v := m["primary"]; len(v) > 0 && v[0] == '{' {
		d.addEntry(address, of, v)
	}
	dec := newDecoder(orNull(m["deposed"]))
	return eachElement(dec, func(i int) error {
		v, err := dec.ReadValue()
		d.addEntry(fmt.Sprintf("%s (deposed %d)", address, i), of, v)
		return err
	})
}
