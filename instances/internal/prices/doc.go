// SPDX-License-Identifier: Apache-2.0

// Package prices adds up the prices of the resources in a plan, from a table that the
// administrator maintains. Sums are whole millionths of a currency: nothing is rounded.
package prices
