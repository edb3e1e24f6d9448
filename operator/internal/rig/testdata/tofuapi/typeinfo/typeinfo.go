// SPDX-License-Identifier: Apache-2.0

// Package typeinfo names the keys of a Secret of outputs that hold types.
package typeinfo

// Suffix follows the name of an output.
const Suffix = "__type"
