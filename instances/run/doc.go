// SPDX-License-Identifier: Apache-2.0

// Package run says what an attempt to run the tool for somebody is, and what carries it out.
//
// An [Attempt] is made by [New] from a record, whether it is the run of a workspace or of an
// instance. [Advance] has the rules of all attempts: it takes the next step by an [Executor], and
// returns the event that the machine of package lifecycle is told. Its callers decide when: the
// driver of a server, and the operator's controller of Instances.
//
// The two executors differ in what their carriers can do. A process ([MachineExecutor], in
// instances/internal/localexec) ends its attempt by itself when its time is over, tells when it has
// ended, and leaves a log and folders. Objects of Flux ([ClusterExecutor], in the operator's
// instancerun) are read again, have a deadline here, and keep what they made until it is released.
//
// A [Report] is what an attempt on a machine leaves in the registry.
package run
