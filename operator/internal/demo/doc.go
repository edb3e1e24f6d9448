// SPDX-License-Identifier: Apache-2.0

// Command demo measures the operator with a real API server on one machine. It runs okara
// and the operator as processes, and leaves nothing behind.
//
// With OKARA_SCALE=MODULES,INSTANCES,OBJECTS the operator manages that many objects, and
// the command prints the cost of an idle hour; make scale-kube runs this. A Module of three
// versions needs 0.12 s of processor until it is Ready, so 5,000 took 6 min on
// two processors: 0.05 in okara serve, for 46 requests, a fifth of it in fsync; 0.02 in the
// operator; 0.05 in API server and etcd, for eight writes, as a status is written on its own. With
// OKARA_CHAOS=DURATION everything is killed at random for so long; make chaos-kube runs
// this.
package main
