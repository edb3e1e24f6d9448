// SPDX-License-Identifier: Apache-2.0

// Package portaltest has what tests of instances need: a store in memory over the real
// machine, templates, an issuer with users and groups, an API over them, and its pages.
package portaltest
