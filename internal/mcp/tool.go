// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
)

// Source reads for the tools, and of what there is only what the caller may read. What does not
// exist and what may not be read are the same [oci.ErrNotFound].
type Source struct {
	Find    func(ctx context.Context, query url.Values) (search.Results, error) // see [search.ParseQuery]
	List    func(ctx context.Context, it addr.Item) (*depot.Listing, error)     // served and withdrawn versions
	Open    func(ctx context.Context, it addr.Item, v addr.Version) (*catalog.Catalog, error)
	Explain func(err error) string // for the caller

	// Users and Outdated name states; nil: none are known.
	Users    func(ctx context.Context, address string, q usage.Query) (usage.Answer, error)
	Outdated func(ctx context.Context) (found []usage.Outdated, complete bool, err error)

	Host     string // of the front-end in sources; "": configurations name the registry
	Registry string // its host
}

// sourceOf returns the source of a version for configurations; dir is a directory of a module.
func (s Source) sourceOf(l addr.Layout, it addr.Item, v addr.Version, dir string) (source, constraint string) {
	if dir != "" {
		dir = "//" + dir
	}
	switch {
	case s.Host != "" && it.Kind != addr.KindMirror:
		return s.Host + "/" + it.String() + dir, description.ConstraintFor(v)
	case it.Kind == addr.KindModule:
		return "oci://" + s.Registry + "/" + it.Repository(l) + dir + "?tag=" + v.Tag(), ""
	}
	return it.String(), description.ConstraintFor(v)
}

// tool is one tool as it is listed.
type tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  map[string]any  `json:"inputSchema"`
	OutputSchema map[string]any  `json:"outputSchema"`
	Annotations  map[string]bool `json:"annotations"`

	run func(ctx context.Context, s Source, arguments json.RawMessage) (any, error)
}

// newTool returns a tool whose schemas are those of the types: fields without omitempty are
// required, and the tag desc describes them.
func newTool[In, Out any](name, title, about string, run func(context.Context, Source, In) (Out, error)) tool {
	return tool{
		name, title, about, schemaOf(reflect.TypeFor[In]()), schemaOf(reflect.TypeFor[Out]()), map[string]bool{"readOnlyHint": true, "openWorldHint": false},
		func(ctx context.Context, s Source, arguments json.RawMessage) (any, error) {
			var in In
			d := json.NewDecoder(strings.NewReader(cmp.Or(string(arguments), "{}")))
			d.DisallowUnknownFields()
			if err := d.Decode(&in); err != nil {
				return nil, &wrongError{"invalid arguments of " + name + ": " + strings.TrimPrefix(err.Error(), "json: ")}
			}
			return run(ctx, s, in)
		},
	}
}

// wrongError is a mistake of the caller; its text says what to do.
type wrongError struct{ text string }

func (e *wrongError) Error() string { return e.text }

// answerCall runs the tool. Errors are results too: the model reads them, and may do better.
func (t tool) answerCall(ctx context.Context, s Source, arguments json.RawMessage) map[string]any {
	content := func(s string) []map[string]string { return []map[string]string{{"type": "text", "text": s}} }
	out, err := t.run(ctx, s, arguments)
	if err == nil {
		return map[string]any{"content": content(string(encodePlain(out))), "structuredContent": out}
	}
	message := s.Explain
	if _, ok := errors.AsType[*wrongError](err); ok {
		message = error.Error
	}
	return map[string]any{"content": content(text.Clip(text.Block(message(err)), MaxAnswer/4)), "isError": true}
}

// schemaOf returns the JSON Schema of a type.
func schemaOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Struct:
	default:
		return map[string]any{"type": map[reflect.Kind]string{reflect.String: "string", reflect.Int: "integer", reflect.Bool: "boolean"}[t.Kind()]}
	}
	properties := map[string]any{}
	var required []string
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue // its fields are visible
		}
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		schema := schemaOf(f.Type)
		if about := f.Tag.Get("desc"); about != "" {
			schema["description"] = about
		}
		properties[name] = schema
		if rest == "" {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		schema["required"] = required
	}
	return schema
}

// versionsOf are the versions of an item that a call is about.
type versionsOf struct {
	addr.Selection
	list   *depot.Listing
	served *catalog.Versions
	newest string // of all, not only of those that the selection allows; "": none is served
}

// findItem finds ADDRESS[@CONSTRAINT] of a kind, module or provider, "" for any.
func findItem(ctx context.Context, s Source, address, kind string) (c versionsOf, err error) {
	if c.Selection, err = addr.ParseSelection(address); err != nil {
		return c, &wrongError{text.Excerpt(err.Error()) + ": an address is NAMESPACE/NAME/SYSTEM of a module, NAMESPACE/TYPE of a provider or HOST/NAMESPACE/TYPE of a mirrored one, with @VERSION or @CONSTRAINT if needed"}
	}
	if kind != "" && (c.Kind == addr.KindModule) != (kind == addr.KindModule) {
		return c, &wrongError{text.Excerpt(address) + " is not the address of a " + kind}
	}
	c.list, err = s.List(ctx, c.Item)
	if errors.Is(err, oci.ErrNotFound) {
		return c, unknownItem(ctx, s, c.Item)
	}
	if err != nil {
		return c, err
	}
	c.served = &catalog.Versions{Listing: c.list, Listed: slices.DeleteFunc(slices.Clone(c.list.Versions), func(v addr.Version) bool { return c.list.Status(v).Yanked != nil })}
	if v, ok := c.served.Latest(); ok {
		c.newest = v.String()
	}
	return c, nil
}

// chooseVersion returns the highest served version that the constraint allows, or the exact one.
func (c versionsOf) chooseVersion(constraint string) (v addr.Version, err error) {
	allow, err := addr.ParseConstraint(constraint)
	if err != nil {
		return v, &wrongError{text.Excerpt(err.Error())}
	}
	v, err = addr.ParseVersion(constraint)
	ok := err == nil && slices.Contains(c.list.Versions, v)
	switch {
	case constraint == "":
		v, ok = c.served.Latest()
	case err != nil:
		v, ok = c.served.Highest(allow.Allows)
	}
	if !ok {
		return v, &wrongError{c.Item.String() + " has no such version; the newest is " + cmp.Or(c.newest, "withdrawn, as are all")}
	}
	return v, nil
}

// unknownItem is the answer about an item that does not exist or may not be read, with near names.
func unknownItem(ctx context.Context, s Source, it addr.Item) error {
	name := it.Provider.Type
	kind := it.Kind
	if kind == addr.KindModule {
		name = it.Module.Name
	}
	found, err := s.Find(ctx, url.Values{"q": {name}})
	if err != nil {
		return err
	}
	near := addressesOf(slices.Concat(found.Results, found.Near))
	message := kind + " " + it.String() + " not found, or this token may not read it"
	if len(near) > 0 {
		message += "; similar addresses: " + strings.Join(near, ", ")
	}
	return &wrongError{message}
}

// addressesOf returns the first addresses.
func addressesOf(found []search.Result) (addresses []string) {
	for _, e := range found[:min(5, len(found))] {
		addresses = append(addresses, e.Address)
	}
	return addresses
}
