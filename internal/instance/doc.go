// SPDX-License-Identifier: Apache-2.0

// Package instance is the life of what people launch from templates, as a pure
// machine: no clock, no randomness, no input or output.
package instance
