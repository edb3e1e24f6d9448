// SPDX-License-Identifier: Apache-2.0

// Package schema holds values against JSON Schema 2020-12, as far as the inputs of a
// module need it: a schema says all itself. Keywords that refer to another schema
// ($ref and all else with a dollar sign), and the few that okara does not check
// (contains, dependent*, unevaluated*), are refused when a schema is read, so that
// nothing is taken for checked that was not. Words that are no keywords, and those
// that only describe, such as title, default and format, are passed over.
//
// Texts of problems never repeat a value: it may be secret. Libraries for this compile
// the schemas of schemas when a program starts, which was a quarter of each start.
package schema
