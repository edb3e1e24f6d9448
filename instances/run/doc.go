// SPDX-License-Identifier: Apache-2.0

// Package run is the contract between the driver of run attempts and their executors: the
// specification of an attempt, the Executor interface, and the report that an attempt
// leaves in the registry. The executor on one machine is instances/internal/localexec;
// the operator has one that uses Flux.
package run
