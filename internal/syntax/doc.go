// SPDX-License-Identifier: Apache-2.0

// Package syntax parses untrusted HCL and JSON. It is the only caller of the
// parsers of github.com/hashicorp/hcl in this repository (a rule of
// internal/repotest), so that none of them gets unbounded input.
//
// Those parsers, and the evaluation of their results, recurse without a limit. Go ends a process
// whose stack exceeds 1 GB, and recover cannot prevent that: three megabytes of "[", two hundred
// bytes when zipped, were enough. So the tokens are checked first. Everything that nests in the
// syntax tree counts as depth: brackets, templates, blocks, and the operators, indices and
// directives of one item. [MaxDepth] is far above normal use and far below the capacity of a stack.
//
// Also bounded are the tokens of a file (a byte becomes about 200 bytes of tokens and tree), number
// literals (1e999999999 is a gigabyte of digits) and, with [CheckValue], loops and arithmetic in
// values that are computed while reading: nested "for" expressions multiply.
//
// The scanner of hcl/json treats a grapheme cluster as one character. A character that joins with
// the next one, such as U+0600, thus hides the quote that ends a string, and text according to JSON
// becomes structure. [Source] escapes everything that is not ASCII before that scanner sees it.
//
// [DecodeParts] decodes a settings file into the structs of the packages that
// define the settings. An invalid setting is a [SettingError].
//
// encoding/json, encoding/xml and go.yaml.in/yaml stop at a depth of 10 000, so
// they do not need this package.
package syntax
