// SPDX-License-Identifier: Apache-2.0

// Package jobs is a queue for work that outlives the request for it and the process that runs it.
//
// A job is a tag in a repository that all replicas share, written before the request is answered;
// it contains no secrets. The replica that wrote it runs the job at once. A second tag, also
// written once, records how it ended. A job without that tag after five minutes is run by any
// replica that sees it, so a restart loses nothing.
//
// # Tries
//
// A failed handler is called again, after ten seconds and then after twice as long each time, up to
// an hour; twelve failures, or one that is [Permanent], end the job. A tag is written before each
// try, and another one when the try returns: a try without the second tag ended together with its
// process. After three of those the job is parked, since it may have crashed the process, and is
// only run again on request of a person.
//
// # Limits
//
// Two replicas may run a job at the same time, because a lock in a registry would be too expensive:
// running it twice must be harmless. Ended jobs are forgotten after thirty days, if the registry
// deletes tags; a job with the same id is then new. Each process runs four jobs concurrently, for
// at most an hour each.
package jobs
