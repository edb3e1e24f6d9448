// SPDX-License-Identifier: Apache-2.0

// Package charts has the CRDs of the operator, for programs that check objects without a cluster.
package charts

import "embed"

// CRDs are the files okara/crds/*.yaml.
//
//go:embed okara/crds/*.yaml
var CRDs embed.FS
