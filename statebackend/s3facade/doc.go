// SPDX-License-Identifier: Apache-2.0

// Package s3facade implements the part of S3 that the "s3" state backend of OpenTofu and Terraform
// (1.10 and newer, with use_lockfile) uses, over [statebackend.Store]. It serves one run of a tool,
// on loopback, and rejects every client without the run's key.
//
// # Keys
//
// There is one bucket, [Bucket]. An object key names the repository, so that a facade serves every
// one that a run touches, such as the old and the new one of `init -migrate-state`:
//
//	<repository>/state                          workspace "default"
//	env:/<workspace>/<repository>/state         any other workspace
//	<repository>/remote                         the same, read by
//	remote:/<repository>/<ws>/<repository>/remote   terraform_remote_state
//
// Each of the first two has a lock object of the same key with ".tflock". Remote keys are
// read-only.
//
// # Operations
//
//	GET bucket ?list-type=2&prefix=env:/    Workspaces of the run's repositories
//	PUT key.tflock, If-None-Match: *        Lock; held: 412, the same id again: 200
//	GET key.tflock                          LockInfo of the holder
//	DELETE key.tflock                       Unlock what was last shown to this run;
//	                                        another client's lock: force-unlock
//	HEAD, GET key (also with Range)         Get, under the lock if this run has it
//	PUT key                                 Put under the lock; without one a lock
//	                                        for this write alone
//	POST, PUT, POST, DELETE ?uploadId       a multipart upload, then one Put
//	DELETE key                              delete of the workspace
//
// A HEAD reads the whole state, for its size; the GET that both tools send right after it, and all
// ranges of a large state, come from the same bytes.
//
// # Guarantees and limits
//
// Locks, versions and fencing are those of statebackend; this package only knows which locks this
// run took. Every request must carry the run's access key, which is random and in files that no
// other user can read, in its signature's credential scope; the signature is not verified beyond
// that. Payload hashes, Content-MD5 and x-amz-checksum headers are, so a truncated body is refused.
//
// A caller that took the lock before the tool was started hands it over in [Options].Taken. The
// tool then locks and unlocks as it likes, and no other client gets the lock in between.
//
// AccessDenied is never sent: while listing, the s3 backend ignores it and shows only the default
// workspace.
package s3facade
