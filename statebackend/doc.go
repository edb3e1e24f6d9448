// SPDX-License-Identifier: Apache-2.0

// Package statebackend stores states, their versions and their locks in a
// repository of an OCI registry, with nothing beside the registry.
//
//	s := statebackend.New(repo, statebackend.Options{})
//	l, err := s.Lock(ctx, "prod", statebackend.LockInfo{ID: id, Who: "alice@host"})
//	state, _, err := l.Get(ctx)
//	version, err := l.Put(ctx, newState)
//	err = l.Unlock(ctx)
//
// # What is promised
//
// On a registry whose tag list shows a finished push, no two runs hold the lock
// of one workspace at once, whatever crashes, delays, lost answers and repeated
// requests do. A write that Put acknowledges is seen by every later holder. A
// holder that was overtaken gets [ErrLockLost], and its bytes stay under a
// version of their own. No clock, no time-out, no DELETE and no conditional
// request is part of the argument.
//
// Locking is exact on registries whose tag list shows a finished push; `okara
// doctor` tests yours. If a lock is forced or expires while its owner still
// runs, two runs can change infrastructure at once; the later state write is
// refused and kept as a version. Keep CI concurrency control on. A lock is
// cooperation, not access control: programs that do not know claims see only a
// marker. A registry restored from a backup, or failed over to a database that
// lags behind, may forget a lock, and retention rules of a registry must not
// touch the tags state-*, locked-*, unlocked-* and workspace-*.
//
// # Tags
//
// W is the workspace in a form that is safe in a tag, F and N are numbers, x is
// part hash of the lock id and part chance.
//
//	state-W               the current state: a convenience copy
//	state-W-v<N>          version N: the truth, written once
//	locked-W-<F>-<x>      a claim: one attempt to lock, written once
//	unlocked-W-<F>-<x>    its tombstone: it has ended
//	unlocked-W-<F>-<x>-f  its tombstone: it was ended by somebody else, or with
//	                      a write whose outcome nobody knows
//	locked-W, unlocked-W  markers for people and older tools
//	workspace-W-<seq>-<h> record <seq> of the workspace, written once
//
// # How a lock is taken
//
// List the tags. If a claim without a tombstone is there, somebody holds the
// lock; nothing was written. Else pick F, the first version number that is
// free, and push a claim under a tag that nobody else can use. List again. The
// lock is won if the list shows our claim, no other claim without a tombstone,
// and no version from F on. Otherwise withdraw; of several that withdraw the
// smallest waits a moment and looks again, so that one gets through.
//
// Why two cannot win: let both have pushed a claim before listing for the
// second time. If a list shows every push that finished before it began, then
// the later of the two second lists began after both pushes and shows the other
// claim. If a list is an old snapshot of one order of updates, then it contains
// its reader's own claim, and the longer of the two prefixes contains both.
// Either way one of them saw the other and lost. A claim that a list does not
// show although it was pushed means that the list is old: it is asked again.
//
// A claim that the registry did not take is not the end of an attempt: where it says so
// (429, no connection) the attempt begins anew, and where nobody knows (5xx, no answer)
// after a tombstone for that claim, which may yet arrive.
//
// Some registries list a directory key by key. Such a list may read the version
// tags before the last holder wrote its last version, and the claims after it
// had left. So the winner lists once more and looks at the version numbers only.
//
// # Fencing
//
// F is also the first version that the lock may write; the next are F+1 and so
// on, at most 100,000. Put pushes the version first and lists afterwards: it
// counts only if our claim is listed without a tombstone and our version is the
// highest. The other order would let a successor come in between. A number is
// used up when it is sent, whatever the answer was.
//
// The successor of an overtaken claim starts 100,000 above it, above everything
// the old holder can still write, and seals: it copies the head to its own
// first number before anything else. So a write that arrives late, even days
// later, sorts below and never becomes the head. The jump in the numbers is the
// visible mark of a takeover in the history.
//
// # How a lock ends
//
// By one DELETE of the claim's digest where that removes its tags, by deleting
// the tags where not, by a tombstone where the registry refuses DELETE; which
// of them works is learned. If a write had no definite answer, the tombstone is
// one of those that make the successor jump. Force-unlock never deletes: a
// claim that is gone leaves no trace from which to know that numbers have to be
// skipped.
//
// A lease ([Options].LockTTL) is renewed by pushing the claim again every third
// of it. It is over when the Date header of the registry is later than that of
// the last heartbeat by the lease and a grace. That does not free the lock: it permits
// a takeover, as if by force, to whoever has also seen the same heartbeat for two thirds
// of the lease by a clock that does not jump, while the registry answered: neither
// a Date that is hours wrong, nor another node's, nor an outage that both had ends
// a lease that is kept. Who sees a Date that is five minutes off its own clock
// judges no age. Nothing stops a holder whose lease is over but itself:
// [Lock.Lease] tells the holder how old its last heartbeat is, and runs on while the machine
// sleeps. The marker keeps the first heartbeat and the claim has the last one, so both
// are released by tag or by tombstone, and by tombstone alone where a heartbeat may
// still arrive.
//
// A registry that dies while it writes a tag may list the tag and answer 404 to
// its GET ever after. Such a claim was never acknowledged. Three such answers
// over a minute, by the registry's Date and by our own clock, and it is ended
// like any lock that is taken over; to be wrong about it costs what a takeover
// costs. The store keeps what it saw between attempts, so whoever polls, or asks
// a server that answers at once, makes the minute pass.
//
// # Encryption
//
// With a [Sealer] the bytes of a version are bound to repository (without host),
// workspace and number, and a reader compares these with where it reads, since
// annotations are the word of whoever may write to the registry. So the seal of
// a takeover is sealed anew, and a version without state carries a sealed layer
// of no bytes. What is in clear, or was sealed elsewhere, is [ErrUnsealed];
// [Options].Primary names the repository that this one is a copy of. Other keys
// come by [Lock.Rekey], which alone puts another manifest in the place of a
// version: the same content under the same number, so that no reader and no
// fencing notices. A writer of
// the registry can still remove the newest versions, so that an older one is the
// head again, and can change what manifests say beside the origin: lineage,
// serial and times in a history are not sealed.
//
// # Reading
//
// Without a lock, state-W is read: one request if the state is small enough to
// be inlined in its manifest. Its writer may have died before moving it, and a
// dead holder's move may come late, so a lock compares it with the highest
// version and reads that one; the next Put repairs the copy. With
// [Options].StrictReads every read lists first.
//
// # Workspaces
//
// A server shows workspaces that have no state yet, and what people say of them: tags,
// a description, a project. That is a [Record]. Each change writes the next one under
// a tag of its own, without a lock: the highest number counts, then the larger hash,
// so that two servers that change at once agree which one won. A [Listing] answers for
// all workspaces from one LIST and a GET for each record and version that the store
// did not see before; they never change, and are kept in bounded memory. Older records
// are deleted after an hour, until then they are what the rate is counted by. Whoever
// may write to the registry can forge records: nothing in them says where a state is.
//
// [Lock.DeleteWorkspace] writes a record that says deleted, then deletes the state. So
// a run that saw the workspace before learns that, by the list that its lock makes
// ([Store.LockWhen]), and does not take "no state" for a new workspace.
//
// # A lock that a client holds through servers
//
// A client of the http backend or of tfe.v2 holds a lock by its id; its requests reach
// any of several servers, and these stop and start in between. From the answer to LOCK
// until the client sends UNLOCK, or somebody ends its lock by force, or its lease is
// over, nobody else gets an answer that says they hold it. Fencing alone does not give that: it keeps
// a late write out of the state, while the client changes infrastructure.
//
// A server that has not won the lock itself joins it ([Store.Resume]): it lists, reads
// the oldest live claim of the id, pushes a claim of its own that names that one as its
// root, and lists again. It has joined if the root is live still and no other process
// joins at this moment with numbers as high. Its numbers begin above all that the older
// claims may write, so from its first write on these come below and their processes
// find that out, and join in turn. No claim of an id is ended before its lock is.
//
// Why nobody else wins: the root is live from before the answer to LOCK until the end,
// so every deciding list of somebody else shows it. Why two do not join with the same
// numbers: of their two second lists the later one shows both claims, or the other
// process has written and ended the lock in between; where lists are read key by key
// one more list shows that, as it does to a winner. The end of a lock ends all claims
// of its id and lists until none is live: who joined saw the root live after having
// pushed its claim, so the list that shows the end of the root shows that claim. A
// claim whose root has ended was left by a server that died meanwhile; it holds
// nothing, and whoever finds it in his way ends it. Who joined and wrote nothing
// leaves as if by force, since an older claim may still write below.
//
// LOCK of an id that has a live claim cannot know whether that one had won. It takes
// part like anybody else, beside it and above it. If it is refused it ends all claims
// of the id, for its client got a refusal. A LOCK that comes after UNLOCK, as when a proxy
// repeats it, would make a claim that nobody releases: a released id that is a UUID is
// remembered for an hour and refused in this process. In others it locks until
// [Store.ForceUnlock].
//
// [Store.Check] asks with one LIST whether the lock of an id is held, wherever it was
// won. [Store.Resumed] runs a request under a lock and joins it again where another
// server has written since. Both tell [ErrLockEnded] from [ErrNotHeld]. A list that is
// old may still say yes: what counts is what Put finds. To join costs five requests:
// LIST, GET of the claim, PUT of a claim, LIST, LIST.
//
// # What the requests are
//
// On a warm connection to distribution: Lock 5 (LIST, PUT claim, LIST, LIST,
// PUT marker), Get 2 or 1, Put 5 (POST and PUT of the blob, PUT version, LIST,
// PUT state-W), Check 1, Unlock 1. Where a small blob comes with the POST a Put is 4. A
// registry without DELETE costs one more for each of Lock and Unlock. The first use of a
// repository adds the empty blob, and the first Unlock of a process lists once to see
// what DELETE does.
//
// # How it is checked
//
// The protocol is three small machines without input or output, and one to unlock by
// force, in statebackend/internal/protocol. The tests there run those machines, not a
// copy: TestExplore tries every order of events of two and
// three clients, TestExploreServers of two clients whose requests reach any of two
// servers that stop and start without memory, TestSimulate 100,000 random schedules
// of both with lost, late and repeated requests, torn and old lists, crashes and
// takeovers. TestRules takes one rule after the other out of the code and wants those
// tests to fail (`make mutants`). TestFaultAtEachRequest breaks each request of an
// apply, and other tests kill and stop real processes. The folder models has the same
// protocol in Promela with a mutant per rule, which `make models` checks with spin:
// claims.pml how ids contend, servers.pml what the client of an id is promised
// whichever servers answer it, and sharedtag.pml why one shared tag does not do.
//
// TestRules and servers.pml agree on what each rule of the hand-over prevents: the old
// claim ended first (a write of the holder is refused), no look at older claims (a
// write lands above what the next holder knows, or it does not know one), one list of
// unlock and commit before the list (a claim is left that nobody has), no seal (a late
// write comes above the next holder), first number too low and commit on one torn list
// (two claims write one version), and a refused client leaves claims (of which one is
// left).
//
// # Limits
//
//   - A client that gives up a LOCK and sends it again, while the first server does not
//     notice that it has gone, has two answers under way. If the first is no, because
//     somebody else asked at that moment, it ends the claims of the id, of which the
//     second may have won. A server that notices before it decided stops instead.
//   - A push that a registry answers before it takes effect is not finished in
//     the sense of the promise: where lists are read key by key, one that is
//     being read at that moment may miss a rival.
//   - The contract of a claim's uniqueness is 32 random bits beside 32 bits of
//     the lock id, for one value of F.
//   - Locks are not fair: under permanent contention a client may wait long.
//   - Each listing costs about 100 bytes per tag; a registry without DELETE
//     collects two tags per lock. Give busy workspaces repositories of their own.
//   - A registry that deletes manifests, leaves their tags in the list and shows
//     old lists at once may keep a released lock listed. It locks too long, and
//     breaks nothing.
//   - While a replica is promoted, a replication that still runs can collide
//     with the first writes of workspaces other than the one that was taken over.
//     [Store.Adopt] finds both, and keeps those of the old primary aside.
//
// # Alternatives considered
//
// One shared tag that is checked, written and read back, once or twice, lets
// two clients in; models/sharedtag.pml shows how. Conditional PUT (If-None-Match)
// is ignored by most registries, which answer 201 all the same, so that a client
// cannot tell. Time-outs alone fail as soon as a process is stopped for longer
// than one. A lock service beside the registry would be exact and one more thing
// to run.
package statebackend
