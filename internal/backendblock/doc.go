// SPDX-License-Identifier: Apache-2.0

// Package backendblock has the arguments that say where and how states are stored: those
// of backend "oci", which okara reads itself, and of the state store of okara's provider,
// which a tool reads. Both use one table, [Options]: names, defaults, allowed values, and
// the text of their documentation page.
//
//	a := backendblock.New(dir)
//	err := a.Set("repository", cty.StringVal("registry.example.com/team/state"))
//	err = a.Environment(os.Getenv)
//	b, err := a.Backend()
//	store, err := backendblock.Open(b, backendblock.OpenOptions{})
//
// The first source that sets an argument wins, so a caller with several sources begins
// with the strongest. This package does not parse files: [New] only takes values, and the
// directory for relative paths.
package backendblock
