// SPDX-License-Identifier: Apache-2.0

// Package portalserve is the portal of a cluster: the JSON API of templates and instances
// and their pages, as in okara serve, for the objects of a namespace. It uses no
// registry, no Secret and no state.
//
// One HCL file configures the rights and the login of users, with the blocks of okara
// serve: [Settings] has those that apply here. The operator reads the block instances of
// the same file, so that both apply the same limits.
package portalserve
