// SPDX-License-Identifier: Apache-2.0

// Package portalserve is the portal of a cluster: the JSON API of templates and instances
// and their pages, as okara serve has them, over the objects of a namespace. It has no
// registry, no Secret and no state.
//
// One file in HCL says who may do what and how users log in, in the words of okara
// serve: [Settings] has those of its blocks that mean something here. The operator reads
// the block instances of the same file, so that both judge by the same limits.
package portalserve
