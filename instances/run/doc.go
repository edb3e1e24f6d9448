// SPDX-License-Identifier: Apache-2.0

// Package run is the contract between who drives attempts of runs and what executes
// them: the specification of an attempt, what an executor is, and the report that an
// attempt leaves in the registry. The executor on one machine is
// instances/internal/localexec; the operator has one that uses Flux.
package run
