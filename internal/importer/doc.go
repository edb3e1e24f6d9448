// SPDX-License-Identifier: Apache-2.0

// Package importer creates entries of a depot file, or objects of okara's
// operator, from other sources: the manifests of OpenDepot, or the modules that
// a registry lists. It only converts its input and publishes nothing.
package importer
