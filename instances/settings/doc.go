// SPDX-License-Identifier: Apache-2.0

// Package settings has the blocks of a settings file that are about instances: instances,
// executor, credential, template_source, quota and notify. They are decoded by
// [github.com/seed-141914ff/okara/internal/syntax.DecodeParts] beside the blocks of the
// core. [Block.Check] checks them, and reports errors with file and line.
//
// The package is for okara's own programs; there is no promise of compatibility.
package settings
