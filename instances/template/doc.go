// SPDX-License-Identifier: Apache-2.0

// Package template is what may be launched, and how a launch is filled in, by pure
// functions: no clock, no input or output.
//
// # Reading
//
// [Parse] reads the templates of a file in either syntax of HCL, and says of each
// mistake where it is. [Known] are the executors, credentials and settings that a template
// may name. Of a [Template] that is right, [Template.Canonical] is the form that is stored
// and that [Template.Digest] is of; [ParseCanonical] reads it.
//
// # Checking
//
// A [Schema] is made of a template and the description of its [Module]. It says what a
// launch or an update may give ([Schema.CheckParameters], [Schema.CheckUpdate]), and is
// the JSON Schema that a form is made of. What does not fit is a [fieldError] that never
// repeats a value, for that may be secret.
//
// # Rendering
//
// Inputs of the module, and the [Connection] that a person is shown, are templates of
// HCL over a [Scope]: parameters, the [Owner], claims, settings of the server, outputs.
// An evaluator of its own knows a short list of functions and computes with bounds;
// a value is never read as an expression. [Render] and [RenderConnection] fill them in.
//
// What becomes of a launch is package lifecycle's, and where templates come from is that
// of whoever loads them.
//
// The package is for okara's own programs; there is no promise of compatibility.
package template
