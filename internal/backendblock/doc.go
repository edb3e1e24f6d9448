// SPDX-License-Identifier: Apache-2.0

// Package backendblock has the arguments by which somebody says where states are
// and how they are kept: those of backend "oci", which okara reads itself, and of
// the state store of okara's provider, which a tool reads. Both have one table,
// [Options]: names, defaults, what a value may be, and the text of their page.
//
//	a := backendblock.New(dir)
//	err := a.Set("repository", cty.StringVal("registry.example.com/team/state"))
//	err = a.Environment(os.Getenv)
//	b, err := a.Backend()
//	store, err := backendblock.Open(b, backendblock.OpenOptions{})
//
// The first that sets an argument wins, so who has several sources of them begins
// with the strongest. What is written out in a file is not read here: [New] only
// knows values, and in which folder relative paths begin.
package backendblock
