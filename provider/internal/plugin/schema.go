// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	data "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	store "github.com/hashicorp/terraform-plugin-framework/statestore/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/seed-141914ff/okara/internal/backendblock"
)

// maker creates the attributes of one kind of schema. The framework has different types for each.
type maker[A any] struct {
	value func(o backendblock.Option) A
	one   func(attributes map[string]A) A
	list  func(attributes map[string]A) A
}

// attributes creates a schema from options.
func (m maker[A]) attributes(options []backendblock.Option) map[string]A {
	all := map[string]A{}
	blocks := map[string]map[string]A{}
	for _, o := range options {
		block, name := o.Block()
		if block == "" {
			all[name] = m.value(o)
			continue
		}
		if blocks[block] == nil {
			blocks[block] = map[string]A{}
		}
		blocks[block][name] = m.value(o)
	}
	for block, attributes := range blocks {
		if block == "encryption" {
			all[block] = m.list(attributes)
		} else {
			all[block] = m.one(attributes)
		}
	}
	return all
}

func storeAttributes() map[string]store.Attribute {
	m := maker[store.Attribute]{
		value: storeAttribute,
		one: func(attributes map[string]store.Attribute) store.Attribute {
			return store.SingleNestedAttribute{Optional: true, Attributes: attributes}
		},
		list: func(attributes map[string]store.Attribute) store.Attribute {
			return store.ListNestedAttribute{Optional: true, NestedObject: store.NestedAttributeObject{Attributes: attributes}}
		},
	}
	return m.attributes(backendblock.Options())
}

func storeAttribute(o backendblock.Option) store.Attribute {
	switch o.Kind {
	case backendblock.Flag:
		return store.BoolAttribute{Optional: true, MarkdownDescription: o.What}
	case backendblock.Number:
		return store.Int64Attribute{Optional: true, MarkdownDescription: o.What}
	case backendblock.List:
		return store.ListAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: o.What}
	}
	return store.StringAttribute{Optional: true, MarkdownDescription: o.What}
}

// dataAttributes returns the attributes of a data source that reads states.
func dataAttributes() map[string]data.Attribute {
	m := maker[data.Attribute]{
		value: dataAttribute,
		one: func(attributes map[string]data.Attribute) data.Attribute {
			return data.SingleNestedAttribute{Optional: true, Attributes: attributes}
		},
		list: func(attributes map[string]data.Attribute) data.Attribute {
			return data.ListNestedAttribute{Optional: true, NestedObject: data.NestedAttributeObject{Attributes: attributes}}
		},
	}
	var reading []backendblock.Option
	for _, o := range backendblock.Options() {
		if o.Reads {
			reading = append(reading, o)
		}
	}
	return m.attributes(reading)
}

func dataAttribute(o backendblock.Option) data.Attribute {
	switch o.Kind {
	case backendblock.Flag:
		return data.BoolAttribute{Optional: true, MarkdownDescription: o.What}
	case backendblock.Number:
		return data.Int64Attribute{Optional: true, MarkdownDescription: o.What}
	case backendblock.List:
		return data.ListAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: o.What}
	}
	return data.StringAttribute{Optional: true, MarkdownDescription: o.What}
}
