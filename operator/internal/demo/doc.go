// SPDX-License-Identifier: Apache-2.0

// Command demo shows the operator with a real API server on one machine; make demo-kube
// runs it. It shows the chart's objects, a Depot that a tenant writes, an operator that
// is killed in the middle of its work, and tofu installing the resulting module. It runs
// okara and the operator as processes, and leaves nothing behind.
//
// With OKARA_SCALE=MODULES,INSTANCES,OBJECTS the operator manages that many objects
// instead, and the command prints the cost of an idle hour; make scale-kube runs this.
package main
