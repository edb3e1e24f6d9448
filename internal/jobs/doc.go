// SPDX-License-Identifier: Apache-2.0

// Package jobs is a queue for work that outlives the request that asks for it,
// and the process that does it.
//
// A job is a tag in a repository that all replicas share, written before the
// request is answered; nothing secret is in it. The replica that wrote it does
// the job at once. A second tag, written once as well, says how it ended. A job
// without that tag after five minutes is done by whoever sees it, so a restart
// loses nothing.
//
// # Tries
//
// A handler that fails is called again, after ten seconds and then twice as long
// each time, up to an hour; twelve failures, or one that is [Permanent], end the
// job. Each try is a tag before it begins, and another one when it came back: a
// try without the second was ended together with its process. After three of
// those the job is parked, since it may be what ended them, and waits for a
// person who asks again.
//
// # Limits
//
// Two replicas may do a job at the same time, for a registry has no lock that
// costs nothing: doing it twice must be harmless. Ended jobs are forgotten after
// thirty days, where the registry deletes tags; one with the same id is new then.
// Four jobs run at once in each process, an hour each at most.
package jobs
