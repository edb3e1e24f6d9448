// SPDX-License-Identifier: Apache-2.0

// Package schema checks values against JSON Schema 2020-12, as far as the inputs of a
// module need it: a schema is self-contained. Keywords that refer to another schema ($ref
// and others with a dollar sign), and the few that okara does not check (contains,
// dependent*, unevaluated*), are refused when a schema is compiled, so that no schema is
// checked only in part. Unknown words, and keywords that only describe, such as title,
// default and format, are ignored.
//
// The cost of a schema is bounded: its patterns when it is compiled, and the steps of
// each check of a value. The caller that decodes schemas and values bounds their size and
// depth.
//
// Texts of problems never repeat a value: it may be secret. Other libraries were
// rejected: santhosh-tekuri/jsonschema compiles the meta-schemas when a program starts,
// which was a quarter of the start-up time; google/jsonschema-go stops at the first
// problem, gives no path to it, and repeats the value.
package schema
