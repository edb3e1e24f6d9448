// SPDX-License-Identifier: Apache-2.0

// Package prices adds up what the resources of a plan cost, by a table that the operator
// keeps. Sums are whole millionths of a currency: nothing is rounded.
package prices
