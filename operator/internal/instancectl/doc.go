// SPDX-License-Identifier: Apache-2.0

// Package instancectl runs the lifecycle of instances that are objects of a cluster: the
// Templates of a namespace, and the Instances and Approvals of all, form the document of package
// lifecycle.
//
// # Objects and the document
//
// The status of an Instance has its record, as a ledger would keep it, with the templates
// that its runs use ([recordIn], [statusFor]); the other fields that users read are derived from
// it. The spec is the desired state. Where it differs from status.handled, which holds what
// the operator has processed, it is a request, and requests become events of the machine
// ([requests]): no matter whether the portal or kubectl wrote them, the machine decides about
// them. An object without a record, or with an owner that its record does not have yet, is
// launched that way, too.
//
// # Writers
//
// [Store] is the store of the portal: it reads the objects from its cache, asks the machine
// whether a command is possible, and writes one object. It never writes a status.
// [Controller] runs in the leader of the operator. Each reconcile reads the objects, steps
// through requests, ended attempts, and what is due by time and templates, and writes each
// changed status by its resourceVersion, so that a write based on an older one fails. Only
// then attempts begin. Any leader can repeat all of it from where it broke off: an attempt
// has a name, and beginning it twice has the effect of once.
//
// A cache may be behind what was written here. [overlay] keeps the last write of each
// object until the cache shows it, so that nothing is counted twice or forgotten.
//
// # Time
//
// What is due is judged by the time of the API server ([Clock]). While that time and the
// clock of this machine are more than five minutes apart, no instance expires.
package instancectl
