// SPDX-License-Identifier: Apache-2.0

// Package instancectl is the life of instances over objects of a cluster: Templates,
// Instances and Approvals of one namespace are the document of package lifecycle.
//
// # Objects and the document
//
// The status of an Instance has its record, as a ledger would keep it, with the templates
// that its runs are made of ([record], [status]); what users read beside it is made of
// that. The spec is what somebody wants. Where it differs from what status.handled says
// was heard, it is a request, and requests become events of the machine ([inbox]): whoever
// wrote them, the portal or kubectl, the machine says what comes of them. An object
// without a record, or with an owner that its record does not have yet, is launched that
// way, too.
//
// # Who writes what
//
// [Store] is what the portal has: it reads the objects from its cache, asks the machine
// whether something can be done, and writes one object. It never writes a status.
// [Controller] runs in the leader of the operator. Each of its passes reads the objects,
// steps through requests, ends of attempts, and what time and templates make due, and
// writes each status that changed by its resourceVersion: whoever has an older one writes
// nothing. Only then attempts are begun. All of it is repeated where it broke off, by
// any leader: an attempt has a name, and beginning it twice is once.
//
// A cache may be behind what was written here. [overlay] has what was written last of each
// object until the cache shows it, so that nothing is counted twice or forgotten.
//
// # Time
//
// What is pending is judged by the time of the API server ([clock]). Where that and the clock
// of this machine are more than five minutes apart, nothing ends until they agree.
package instancectl
