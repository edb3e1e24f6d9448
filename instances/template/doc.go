// SPDX-License-Identifier: Apache-2.0

// Package template describes what may be launched, and fills in a launch, by pure
// functions: no clock, no input or output.
//
// # Reading
//
// [Parse] reads the templates of a file in either syntax of HCL, and reports each mistake
// with its position. [Known] holds the executors, credentials and settings that a
// template may name. [Template.Canonical] is the stored form of a valid [Template], and
// [Template.Digest] its digest; [ParseCanonical] parses it.
//
// # Checking
//
// A [Schema] is made from a template and the description of its [Module]. It checks the
// parameters of a launch or an update ([Schema.CheckParameters], [Schema.CheckUpdate]),
// and is the JSON Schema from which forms are made. Errors never repeat a value, since it
// may be secret.
//
// # Rendering
//
// Inputs of the module, and the [Connection] shown to users, are HCL templates over a
// [Scope]: parameters, the [Owner], claims, settings of the server, outputs. They
// are evaluated by hclsyntax with a short list of functions, after their nodes and the size
// of what they name were checked, since hclsyntax 2.25.0 bounds nothing; a value is never
// read as an expression. [Render] and [RenderConnection] fill them in.
//
// Package lifecycle handles what happens to a launch. Package templatesource loads
// templates.
//
// The package is for okara's own programs; there is no promise of compatibility.
package template
