// SPDX-License-Identifier: Apache-2.0

// Package preview shows what definitions of kinds and their objects become, without a
// cluster and a registry. It calls what the controllers call, so that it shows what they
// make. Of a Secret it shows what there would be, never a value: it has none.
package preview
