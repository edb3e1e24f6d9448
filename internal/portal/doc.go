// SPDX-License-Identifier: Apache-2.0

// Package portal is the API of templates and instances over a store of records,
// and the reconciler that drives the machine.
package portal
