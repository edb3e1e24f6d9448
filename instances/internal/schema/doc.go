// SPDX-License-Identifier: Apache-2.0

// Package schema holds values against JSON Schema 2020-12, as far as the inputs of a
// module need it: a schema says all itself. Keywords that refer to another schema
// ($ref and all else with a dollar sign), and the few that okara does not check
// (contains, dependent*, unevaluated*), are refused when a schema is read, so that
// nothing is taken for checked that was not. Words that are no keywords, and those
// that only describe, such as title, default and format, are passed over.
//
// What a schema costs is bounded: its patterns when it is read, and the steps of each
// value held against it. How large and how deep both are, and their numbers, is bounded by
// who decodes them.
//
// Texts of problems never repeat a value: it may be secret. Of the libraries for this,
// santhosh-tekuri/jsonschema compiles the schemas of schemas when a program starts, which
// was a quarter of each start; google/jsonschema-go stops at the first problem, has no
// path to it, and repeats the value.
package schema
