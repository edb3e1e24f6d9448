// SPDX-License-Identifier: Apache-2.0

package states

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

// Modes of resources in a state.
const (
	ModeManaged = "managed"
	ModeData    = "data"
	ModeOutput  = "output"

	modeCheck = "check" // a result of a check, which is only compared
)

// Bounds for displaying a state.
const (
	MaxShown  = 64 << 20 // bytes of the file
	MaxLevels = 100      // of objects and lists in it
	MaxValue  = 4 << 10  // bytes of one value
)

// ErrNotShown says that a state is too large or too deeply nested to display.
var ErrNotShown = errors.New("only the metadata of this state is shown")

// Fits returns nil, or the [ErrNotShown] why a state is not displayed. It allocates nothing.
func Fits(state []byte) error {
	if len(state) > MaxShown {
		return fmt.Errorf("the state has more than %d MiB: %w", MaxShown>>20, ErrNotShown)
	}
	if text.Levels(state) > MaxLevels {
		return fmt.Errorf("the state nests more than %d levels: %w", MaxLevels, ErrNotShown)
	}
	return nil
}

// Resource is an instance of a resource, or an output.
type Resource struct {
	Address  string
	Mode     string // ModeManaged, ModeData or ModeOutput
	Type     string // "" for an output
	Name     string
	Module   string // "" for the root
	Provider string // as the tools write it: provider["registry.opentofu.org/hashicorp/aws"]
}

// Resources returns the resources of a state sorted by address, outputs first.
func (d *Document) Resources() []Resource {
	all := make([]Resource, 0, len(d.entries))
	for _, e := range d.entries {
		if e.of.Mode != modeCheck {
			r := e.of.Resource
			r.Address = e.address
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b Resource) int { return cmp.Compare(rankOf(a.Mode), rankOf(b.Mode)) })
	return all
}

func rankOf(mode string) int { return slices.Index([]string{ModeOutput, ModeManaged, ModeData}, mode) }

// Value is one value of a resource or output. A sensitive one has no JSON.
type Value struct {
	Path      string
	JSON      json.RawMessage
	Sensitive bool
}

// Values returns the values below an address, by path; not ok: no such address.
func (d *Document) Values(address string) (values []Value, ok bool) {
	leaves, ok := d.leaves(address)
	for _, path := range sortedKeys(leaves, nil) {
		if isFact(path) {
			continue
		}
		v := Value{Path: path, Sensitive: leaves[path].sensitive}
		if !v.Sensitive {
			v.JSON = leaves[path].json
		}
		values = append(values, v)
	}
	return values, ok
}

// isFact reports whether a path is of what the tools keep beside the values of a resource.
func isFact(path string) bool { return strings.HasPrefix(path, "(") }

func (d *Document) leaves(address string) (leaves map[string]value, ok bool) {
	i, ok := slices.BinarySearchFunc(d.entries, address, func(e entry, address string) int { return strings.Compare(e.address, address) })
	if ok {
		leaves, _ = d.entries[i].flatten()
	}
	return leaves, ok
}

// ShowSensitive returns one value, even if sensitive. The caller must be allowed to see it.
func (d *Document) ShowSensitive(address, path string) (value json.RawMessage, ok bool) {
	leaves, _ := d.leaves(address)
	v, ok := leaves[path]
	return v.json, ok
}

// Size returns the approximate memory that the document takes, in bytes.
func (d *Document) Size() int {
	size := len(d.state)
	for _, e := range d.entries {
		size += len(e.address) + 64
	}
	return size
}
