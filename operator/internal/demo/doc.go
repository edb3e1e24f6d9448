// SPDX-License-Identifier: Apache-2.0

// Command demo measures the operator with a real API server on one machine. It runs okara
// and the operator as processes, and leaves nothing behind.
//
// With OKARA_SCALE=MODULES,INSTANCES,OBJECTS the operator manages that many objects, and
// the command prints the cost of an idle hour; make scale-kube runs this. With
// OKARA_CHAOS=DURATION everything is killed at random for so long; make chaos-kube runs
// this.
package main
