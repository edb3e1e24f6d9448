// SPDX-License-Identifier: Apache-2.0

// Command demo shows the operator with a real API server on one machine; make demo-kube
// runs it. The chart's objects, a Depot that a tenant writes, an operator that is killed
// in the middle of its work, and tofu that installs what came of it. It knows okara and
// the operator as processes, and leaves nothing behind.
//
// With OKARA_SCALE=MODULES,INSTANCES,OBJECTS it has the operator work on so many instead,
// and prints what an idle hour costs: make scale-kube.
package main
