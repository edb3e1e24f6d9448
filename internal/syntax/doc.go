// SPDX-License-Identifier: Apache-2.0

// Package syntax parses HCL and JSON that others wrote. It is the only caller
// of the parsers of github.com/hashicorp/hcl in this repository (a rule of
// internal/repotest), so that none of them sees input without a bound.
//
// Those parsers, and the evaluation of what they return, recurse without a
// limit of their own. Go ends a process whose stack passes 1 GB, and no
// recover stops that: three megabytes of "[", two hundred bytes once zipped,
// were enough. So the tokens are looked at first. What counts as depth is
// everything that nests in the syntax tree: brackets, templates, blocks, and
// the operators, indices and directives of one item. [MaxDepth] is far above
// what people write and far below what a stack holds.
//
// Bounded as well are the tokens of a file (a byte becomes some 200 bytes of
// tokens and tree), literals of numbers (1e999999999 is a gigabyte of digits)
// and, with [CheckValue], loops and arithmetic in values that are computed
// while reading: nested "for" expressions multiply.
//
// The scanner of hcl/json takes a grapheme cluster for one character. A
// character that joins what follows, such as U+0600, thus hides the quote that
// ends a string, and what JSON calls text becomes structure. [Source] escapes
// everything that is not ASCII before that scanner sees it.
//
// A file of settings is decoded by [DecodeParts] into the structs of those whose
// settings they are. What is wrong with one is a [SettingError].
//
// encoding/json stops at a depth of 10 000, encoding/xml at 10 000 and
// go.yaml.in/yaml at 10 000; those need nothing from here.
package syntax
