// SPDX-License-Identifier: Apache-2.0

// Package portaltest has what tests of instances need: a store in memory over the
// real machine, templates, an issuer with people and groups, and an API over them.
package portaltest
