// SPDX-License-Identifier: Apache-2.0

// Package templatesource says which templates there are now. [Templates] reads files and
// artifacts every 30 s, and resolves the version of the module that each means now. What
// cannot be read stays as it was; what cannot be launched is kept with its problem. A
// launch keeps a snapshot, so nothing of this reaches an instance that is there.
//
// The package is for okara's own programs; there is no promise of compatibility.
package templatesource
