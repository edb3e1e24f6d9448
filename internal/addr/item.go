// SPDX-License-Identifier: Apache-2.0

package addr

import "strings"

// Selection is one module or provider with a selection of its versions.
type Selection struct {
	Item
	Versions string // the constraint as written; "" means all
	Allow    Constraint
}

// ParseSelection parses ADDRESS[@CONSTRAINT].
func ParseSelection(s string) (Selection, error) {
	address, versions, _ := strings.Cut(s, "@")
	if v, err := ParseVersion(versions); err == nil {
		versions = v.String() // accepts also v1.2.3, as in git tags
	}
	allow, err := ParseConstraint(versions)
	if err != nil {
		return Selection{}, err
	}
	it, err := ParseItem(address)
	return Selection{Item: it, Versions: versions, Allow: allow}, err
}

// Selects reports whether v is selected; without a constraint all versions are.
func (s Selection) Selects(v Version) bool { return s.Versions == "" || s.Allow.Allows(v) }

// ParseItem parses the address of a module or provider: three parts are a mirrored provider if the
// first is a host, else a module; two are an own provider.
func ParseItem(address string) (Item, error) {
	if strings.Contains(address, "://") {
		return Item{}, syntaxError("address", address, "must be NAMESPACE/NAME/SYSTEM or [HOST/]NAMESPACE/TYPE, without a scheme")
	}
	if n := strings.Count(address, "/"); n == 1 || n != 3 && hasHost(address) {
		p, err := ParseProvider(address)
		return p.Item(), err
	}
	m, err := ParseModule(address)
	return m.Item(), err
}

// hasHost reports whether the first part of an address is a host.
func hasHost(address string) bool {
	first, _, _ := strings.Cut(address, "/")
	return strings.ContainsAny(first, ".:") || first == "localhost"
}

// ParseItemVersion parses ADDRESS@VERSION.
func ParseItemVersion(s string) (Item, Version, error) {
	address, version, _ := strings.Cut(s, "@")
	it, err := ParseItem(address)
	if err != nil {
		return Item{}, Version{}, err
	}
	v, err := ParseVersion(version)
	return it, v, err
}

// Item returns the module as an item.
func (m Module) Item() Item { return Item{Kind: KindModule, Module: m} }

// Item returns the provider as an item: a mirrored one if it has a host name.
func (p Provider) Item() Item {
	if p.Hostname == "" {
		return Item{Kind: KindProvider, Provider: p}
	}
	return Item{Kind: KindMirror, Provider: p}
}

// Versioned reports whether the item has versions: a module or a provider.
func (it Item) Versioned() bool {
	return it.Kind == KindModule || it.Kind == KindProvider || it.Kind == KindMirror
}

// Published reports whether versions of the item are published: Versioned, or a template.
func (it Item) Published() bool { return it.Versioned() || it.Kind == KindTemplate }

// String returns the address of the module, provider or template.
func (it Item) String() string {
	switch it.Kind {
	case KindModule:
		return it.Module.String()
	case KindTemplate:
		return it.Template
	}
	return it.Provider.String()
}

// Repository returns the repository of a module, provider or template.
func (it Item) Repository(l Layout) string {
	switch it.Kind {
	case KindModule:
		return l.Module(it.Module)
	case KindMirror:
		return l.MirrorOf(it.Provider)
	case KindTemplate:
		namespace, name, _ := strings.Cut(it.Template, "/")
		repository, _ := l.Template(namespace, name) // "" if it is no template
		return repository
	}
	return l.Provider(it.Provider)
}
