// SPDX-License-Identifier: Apache-2.0

// Package importer makes entries of a depot file, or objects of okara's operator, from
// what somebody has elsewhere: the manifests of OpenDepot, or the modules that a registry
// lists. It reads what it is given and publishes nothing.
package importer
