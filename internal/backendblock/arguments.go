// SPDX-License-Identifier: Apache-2.0

package backendblock

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"
)

// Arguments collects the arguments of one block; the first value wins.
type Arguments struct {
	backend    Backend
	dir        string
	primary    string // primary_repository: alone an alias of repository
	versioning struct {
		enabled *bool
		max     *int
	}
	sealedBy sealedBy
	set      map[string]bool // by name
}

// sealedBy is the source of the encryption arguments, which are never mixed.
type sealedBy int

const (
	nobody    sealedBy = iota
	aSetting           // a flag, or an earlier init
	someBlock          // encryption blocks
)

// New returns Arguments without any value. Relative paths are relative to dir.
func New(dir string) *Arguments { return &Arguments{dir: dir, set: make(map[string]bool)} }

// Set gives an argument a value, unless it has one or that is null.
func (a *Arguments) Set(name string, v cty.Value) error {
	o, ok := findOption(name)
	if !ok {
		return UnknownArgument(name)
	}
	if a.set[name] || v.IsNull() {
		return nil
	}
	if err := decodeInto(v, o.target(a)); err != nil {
		return fmt.Errorf("argument %q: %w", name, err)
	}
	a.set[name] = true
	return nil
}

// UnknownArgument returns the error about an argument that does not exist.
func UnknownArgument(name string) error {
	var names []string
	for _, o := range Options() {
		names = append(names, o.Name)
	}
	return fmt.Errorf("backend \"oci\" has no argument %q\nhint: valid arguments are %s", name, strings.Join(names, ", "))
}

// currentKey returns the encryption block that was begun last, and begins one if there is none.
func (a *Arguments) currentKey() *Encryption {
	if len(a.backend.Encryption) == 0 {
		a.backend.Encryption = append(a.backend.Encryption, Encryption{})
	}
	return &a.backend.Encryption[len(a.backend.Encryption)-1]
}

// BeginEncryption starts one more encryption block; not ok: keys came from a setting.
func (a *Arguments) BeginEncryption() (ok bool) {
	if a.sealedBy == aSetting {
		return false
	}
	a.backend.Encryption = append(a.backend.Encryption, Encryption{})
	a.sealedBy = someBlock
	for _, o := range keyOptions() {
		delete(a.set, o.Name)
	}
	return true
}

// Setting gives an argument the value of a flag; keys come from flags or from blocks.
func (a *Arguments) Setting(name, value string) error {
	if strings.HasPrefix(name, "encryption.") {
		if a.sealedBy == someBlock {
			return nil
		}
		a.sealedBy = aSetting
	}
	return a.Set(name, cty.StringVal(value))
}

// Environment reads the variables of the options that are not set yet.
func (a *Arguments) Environment(getenv func(string) string) error {
	sealed := a.sealedBy != nobody
	for _, o := range Options() {
		v := getenv(o.Variable())
		if v == "" || sealed && strings.HasPrefix(o.Name, "encryption.") {
			continue
		}
		// A block that uses the alias takes precedence over the environment.
		if o.Name == "repository" && a.primary != "" {
			continue
		}
		if err := a.Set(o.Name, cty.StringVal(v)); err != nil {
			return fmt.Errorf("%s: %w", o.Variable(), err)
		}
	}
	return nil
}

// Repository returns the repository set so far, "" if there is none.
func (a *Arguments) Repository() string {
	if a.backend.Repository == "" {
		return a.primary
	}
	return a.backend.Repository
}

// Partial returns the arguments so far, unchecked: for callers without the repository.
func (a *Arguments) Partial() Backend { return a.backend }

// decodeInto converts a value to what target points to.
func decodeInto(v cty.Value, target any) error {
	switch t := target.(type) {
	case *[]string:
		return decodeList(v, t)
	case *time.Duration:
		return decodeDuration(v, t)
	case **bool:
		*t = new(bool)
		return decodeInto(v, *t)
	case **int:
		*t = new(int)
		return decodeInto(v, *t)
	}
	want, err := gocty.ImpliedType(target)
	if err != nil {
		return err
	}
	if v, err = convert.Convert(v, want); err != nil {
		return err
	}
	return gocty.FromCtyValue(v, target)
}

func decodeDuration(v cty.Value, t *time.Duration) error {
	var s string
	if err := decodeInto(v, &s); err != nil {
		return err
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration such as \"30s\" or \"5m\"", s)
	}
	*t = d
	return nil
}

// decodeList reads a list, or the comma-separated form of flags and variables.
func decodeList(v cty.Value, t *[]string) error {
	if v.Type() == cty.String {
		for s := range strings.SplitSeq(v.AsString(), ",") {
			if s = strings.TrimSpace(s); s != "" {
				*t = append(*t, s)
			}
		}
		return nil
	}
	v, err := convert.Convert(v, cty.List(cty.String))
	if err != nil {
		return err
	}
	return gocty.FromCtyValue(v, t)
}

// Blocks returns the names of the blocks that contain options.
func Blocks() []string {
	var names []string
	for _, o := range Options() {
		if block, _ := o.Block(); block != "" && !slices.Contains(names, block) {
			names = append(names, block)
		}
	}
	return names
}
