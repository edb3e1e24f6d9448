// SPDX-License-Identifier: Apache-2.0

// Package templatesource loads the available templates. [Templates] reads files and
// artifacts every 30 s, and resolves the module version that each refers to at present.
// What cannot be read is kept unchanged; what cannot be launched is kept with its
// problem. A launch stores a snapshot, so changes here do not affect existing instances.
//
// The package is for okara's own programs; there is no promise of compatibility.
package templatesource
