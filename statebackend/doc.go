// SPDX-License-Identifier: Apache-2.0

// Package statebackend stores states, their versions and their locks in a repository of an OCI
// registry. It needs no other service.
//
//	s := statebackend.New(repo, statebackend.Options{})
//	l, err := s.Lock(ctx, "prod", statebackend.LockInfo{ID: id, Who: "alice@host"})
//	state, _, err := l.Get(ctx)
//	version, err := l.Put(ctx, newState)
//	err = l.Unlock(ctx)
//
// # Guarantees
//
// On a registry whose tag list shows a finished push, no two runs hold the lock of one workspace at
// once, despite crashes, delays, lost answers and repeated requests. A write that Put acknowledges
// is seen by every later holder. A holder that was overtaken gets [ErrLockLost]; its bytes are kept
// as a separate version, not current unless the error says so. The argument depends on no clock,
// time-out, DELETE or conditional request. `okara admin doctor` tests a registry.
//
// If a lock is forced or expires while its owner still runs, two runs can change infrastructure at
// once: keep CI concurrency control on. A lock is cooperation, not access control: programs that do
// not know claims see only a marker. A registry restored from a backup, or failed over to a
// database that lags behind, may forget a lock, and its retention rules must not touch the tags
// state-*, locked-*, unlocked-* and workspace-*.
//
// # Tags
//
// W is the workspace in tag-safe form, F and N are numbers, x is a hash of the lock id and random
// bits.
//
//	state-W               the current state: a convenience copy
//	state-W-v<N>          version N: authoritative, written once
//	locked-W-<F>-<x>      a claim: one attempt to lock, written once
//	unlocked-W-<F>-<x>    the tombstone of a claim that has ended
//	unlocked-W-<F>-<x>-f  the tombstone of a claim that another process ended, or
//	                      that made a write whose outcome is unknown
//	locked-W, unlocked-W  markers for human readers and older tools
//	workspace-W-<seq>-<h> record <seq> of the workspace, written once
//
// # How a lock is taken
//
// List the tags. If there is a claim without a tombstone, the lock is held, and the attempt ends
// without a write. Otherwise pick F, the first free version number, and push a claim under a tag
// that no other client can use. List again. The lock is won if the list shows our claim, no other
// claim without a tombstone, and no version from F on. Otherwise withdraw; of several attempts that
// withdraw, the smallest waits briefly and lists again, so that one succeeds.
//
// Why two cannot win: assume that both have pushed a claim before their second list. If a list
// shows every push that finished before it began, the later of the two second lists began after
// both pushes and shows the other claim. If lists are old snapshots of one order of updates, each
// contains its reader's own claim, and the longer of the two prefixes contains both. Either way one
// saw the other and lost. A list that does not show our pushed claim is old, and is requested
// again.
//
// After a definite refusal of its claim (429, no connection) an attempt starts again; after an
// unknown outcome (5xx, no answer) it first writes a tombstone for that claim, which may still
// arrive.
//
// Some registries list a directory key by key: a list may read the version tags before the last
// holder wrote its last version, and the claims after that holder released. So the winner lists
// once more and checks the version numbers.
//
// # Fencing
//
// F is also the first version that the lock may write; the next are F+1 and so on, fewer than
// 100,000. Put pushes the version first and lists afterwards: it counts only if our claim is listed
// without a tombstone and our version is the highest. The opposite order would let a successor come
// in between. A number is used up once it is sent, whatever the answer was.
//
// The successor of an overtaken claim starts 100,000 above it, above every number that the old
// holder can still write. Before anything else it seals: it copies the head to its own first
// number. So a late write sorts below and never becomes the head. The jump marks the takeover in
// the history.
//
// A lock that is ended by force may have no successor for long. So who forces it seals, too: after
// the tombstones it takes the lock under an id of its own, which copies the head, and releases it.
// If another client is faster, that one seals. When a force-unlock has answered, no write under the
// lock that it ended becomes current.
//
// A write that was sent before may be in the copy, although its holder finds the tombstone in the
// list after it. So an overtaken holder lists until it sees a version of a claim that was not
// overtaken itself, lists once more, since that claim may be overtaken while a list is read, and
// follows the versions down to those of its own claim. If they leave out the write, it is refused;
// if the copy of a force-unlock includes it, it is stored, since nobody shares the id of that claim
// and no copy of another head comes above it; otherwise the error names the version that continues
// it. Without such a version, as when the forcer died, the error says that the next lock decides.
//
// Programs from before that rule do not seal, and tell a holder that its write was not current
// where the next lock may still copy it. A newer holder whose lock one of them ends is told that
// the next lock decides. Everything else holds while both run.
//
// # How a lock ends
//
// A lock ends by one DELETE of the claim's digest where that removes its tags, else by deleting the
// tags, and by a tombstone where the registry refuses DELETE; a store learns which works. If a
// write had no definite answer, the tombstone makes the successor jump. Force-unlock never deletes:
// a deleted claim would leave no sign that numbers have to be skipped.
//
// A lease ([Options].LockTTL) is renewed by pushing the claim again every third of it. It has
// expired when the registry's Date header is later than that of the last heartbeat by the lease and
// a grace period. Expiry does not free the lock. It permits a takeover, as if by force, to a client
// that has also seen the same heartbeat for two thirds of the lease by a clock that does not jump,
// while the registry answered. So a wrong Date, that of another node, or an outage of both sides
// does not end a lease that is being renewed. A client whose clock is five minutes off the Date
// does not judge leases. Nothing but itself stops a holder whose lease has expired: [Lock.Lease]
// reports the age of its last heartbeat, counting the time the machine sleeps. The marker keeps the
// first heartbeat and the claim has the last one, so both are released by tag or by tombstone, and
// by tombstone alone where a heartbeat may still arrive.
//
// A registry that dies while it writes a tag may list the tag and answer 404 to its GET from then
// on. Such a claim was never acknowledged. Three such answers over a minute, by the registry's Date
// and by the local clock, end it like any lock that is taken over; a wrong decision costs what a
// takeover costs. The store keeps these observations between attempts, so they accumulate while a
// client polls.
//
// # Encryption
//
// With a [Sealer] the bytes of a version are bound to repository (without host), workspace and
// number. A reader compares these with where it reads, since any account with write access to the
// registry can forge annotations. So a takeover encrypts its seal again, and a version without
// state carries an encrypted layer of no bytes. A version in clear, or encrypted for another place,
// is [ErrUnsealed]; [Options].Primary names the repository that this one is a copy of. Only
// [Lock.Rekey] replaces the manifest of a version: content and number stay the same, so readers and
// fencing are not affected. An account with write access can still remove the newest versions, so
// that an older one is the head again, and change the unsealed parts of a manifest: lineage, serial
// and times.
//
// # Reading
//
// Without a lock, state-W is read: one request if the state is small enough to be inlined. Its
// writer may have died before moving it, and a dead holder's move may come late. So a lock compares
// it with the highest version and reads that one; the next Put repairs the copy. With
// [Options].StrictReads every read lists first.
//
// # Workspaces
//
// A server shows workspaces that have no state yet, and their tags, description and project, from a
// [Record]. Each change writes the next record under a separate tag, without a lock: the highest
// number counts, then the larger hash, so that two servers agree on the winner. A [Listing] answers
// for all workspaces from one LIST and a GET for each record and version that the store has not
// read before, which never change. Older records are deleted after an hour, and counted until then
// to limit the rate. An account with write access to the registry can forge records, so nothing in
// a record says where a state is.
//
// [Lock.DeleteWorkspace] writes a record that says deleted, then deletes the state. So a run that
// saw the workspace learns of it from its lock's list ([Store.LockWhen]), and does not take "no
// state" for a new workspace.
//
// # A lock that a client holds through servers
//
// A client of the http backend or of tfe.v2 holds a lock by its id; its requests reach any of
// several servers, which stop and start in between. From the answer to LOCK until the client sends
// UNLOCK, its lock is ended by force, or its lease expires, no other client is told that it holds
// the lock. Fencing alone does not give that: it keeps a late write out of the state, while the
// client changes infrastructure.
//
// A server that has not won the lock itself joins it ([Store.Resume]): it lists, reads the oldest
// live claim of the id, pushes a claim of its own that names that one as its root, and lists again.
// It has joined if the root is still live and no other process is joining with numbers as high. Its
// numbers begin above all that the older claims may write, so from its first write on those sort
// below, and their processes detect that and join in turn. No claim of an id is ended before its
// lock is.
//
// Why no other client wins: the root is live from before the answer to LOCK until the end, so every
// deciding list of another client shows it. Why two do not join with the same numbers: of their two
// second lists the later one shows both claims, or the other process has written and ended the lock
// in between; where lists are read key by key one more list shows that. The end of a lock ends all
// claims of its id and lists until none is live: a server that joined saw the root live after it
// had pushed its claim, so the list that shows the end of the root shows that claim. A claim whose
// root has ended is a dead server's. It holds nothing, and a client that finds it in the way ends
// it. A server that joined and wrote nothing ends its claim as if by force, since an older claim
// may still write below.
//
// The root may also be a late claim: a request of a process that died while it answered LOCK,
// received after the lock had been ended by force and another client had won. Then its number is
// below the one from which the successor of the ended claim starts, or it names that claim as one
// that was live when it was made. So a process that joins reads why such claims of the id ended. If
// another client ended one, it joins only a younger claim, of a client that has locked again; there
// is usually none ([ErrLockEnded]).
//
// The id is no secret: a refused client is shown it. So a claim keeps the whole id and, where a
// server took the lock, a hash of its caller's issuer and subject ([WithCaller]), which stay while
// tokens change. A live claim whose tag has the hash of the id is read before it counts as one of
// the client; one with another id or caller is a rival. That costs an uncontended lock no request.
// For a claim without a caller the id alone decides, unless the server has the registry: then it
// knows who made the claim ([Options].Maker), or belongs to nobody by its id.
//
// LOCK of an id that has a live claim cannot know whether that one had won. It competes like any
// other attempt, beside that claim, which it names, and one number below where the successor of
// that claim would start. If it has to copy the head, because an overtaken holder may still write,
// the client may hold by the older claim and write meanwhile. So this copy gets the number below
// the one from which the successor of the overtaken holder starts: no claim uses it, and it is
// above all that the overtaken holder may write and below all that the older claim may write. If
// such a LOCK is refused it ends all claims of the id.
//
// A LOCK after UNLOCK, as when a proxy repeats it, would make a claim that is never released. So
// this process refuses a released id for an hour if it is a UUID. In other processes it locks until
// [Store.ForceUnlock].
//
// [Store.Check] asks with one LIST whether the lock of an id is held, whichever process won it.
// [Store.Resumed] runs a request under a lock and joins it again where another server has written
// since. Both distinguish [ErrLockEnded] from [ErrNotHeld]. An old list may still say yes: what
// counts is what Put finds. Joining costs five requests: LIST, GET of the claim, PUT of a claim,
// LIST, LIST.
//
// # Number of requests
//
// On a warm connection to distribution: Lock 5 (LIST, PUT claim, LIST, LIST, PUT marker), Get 2 or
// 1, Put 5 (POST and PUT of the blob, PUT version, LIST, PUT state-W), Check 1, Unlock 1. Where a
// small blob is sent with the POST, Put takes 4. A registry without DELETE costs one more for each
// of Lock and Unlock. The first use of a repository adds the empty blob, and the first Unlock of a
// process a LIST to see what DELETE does.
//
// # How it is checked
//
// The protocol is four small state machines without input or output, in
// statebackend/internal/protocol, whose tests run those machines and not a copy. TestExplore tries
// every order of events of two and three clients, TestExploreServers of two clients whose requests
// reach any of two servers that stop and start without memory, and TestSimulate 40,000 random
// schedules of both with lost, late and repeated requests, torn and old lists, crashes and
// takeovers. TestRules takes one rule after the other out of the code and expects those tests to
// fail (`make mutants`). TestFaultAtEachRequest breaks each request of an apply, other tests kill
// and stop real processes, and TestHistories of package tfe records what clients see behind a bad
// network. The folder models has the protocol in Promela with a mutant per rule (`make models`):
// claims.pml how ids contend, servers.pml what the client of an id is promised whichever servers
// answer it, and sharedtag.pml why one shared tag is not enough.
//
// # Limits
//
//   - A client that gives up a LOCK and sends it again, or whose proxy does, has two requests
//     under way, if the first server does not notice. If the first is refused because another
//     client asked at the same time, it ends the claims of the id, of which the second may have
//     won: behind the network of TestHistories 2 of 2,298 holders found their lock ended, and their
//     next write refused.
//   - If another client's claim is overtaken after the older claim of a repeated LOCK had been
//     made, no number is free between both, and the copy of the head gets the first number of the
//     younger claim. If the client holds by the older claim and writes before the copy arrives, the
//     written state is below it.
//   - If a server dies during LOCK and the lease of its claim expires, and another client ends
//     that claim while a repeated LOCK wins beside it, a third server answers that the lock has
//     expired.
//   - A push that a registry answers before it takes effect is not finished in the sense of the
//     guarantee: a list that is being read key by key at that time may miss a rival.
//   - A claim is unique by 32 random bits beside 32 bits of the lock id, for one value of F.
//   - Who may delete tags can end a lock without a tombstone. Its holder is then told that the
//     next lock decides about its write. okara's own registry refuses that to others.
//   - Locks are not fair: under permanent contention a client may wait long. Order would cost no
//     request, but time in each hand-over: nobody tells a waiter that the lock is free, so it stays
//     free until the first in line asks again. In the model of TestFairness, eight tools that always
//     want it for 1 s, a turn takes 1.3 s and the longest of 15,000 waits is 9 minutes; in order of
//     arrival 8.7 s and 95 s, and a waiter that has gone stops the rest.
//   - Each listing costs about 100 bytes per tag, and a registry without DELETE collects two tags
//     per lock. Give each busy workspace a separate repository.
//   - A registry that deletes manifests, leaves their tags in the list and also shows old lists
//     may keep a released lock listed: it is held too long, and nothing breaks.
//   - While a replica is promoted, a replication that still runs can collide with the first
//     writes of workspaces other than the one that was taken over. [Replicas.Adopt] finds both, and
//     keeps those of the old primary aside.
//
// # Alternatives considered
//
// One shared tag that is checked, written and read back, once or twice, lets two clients in;
// models/sharedtag.pml shows how. Most registries ignore conditional PUT (If-None-Match) and answer
// 201 all the same. Time-outs alone fail as soon as a process is stopped for longer than one. A
// lock service beside the registry would be exact, but one more service to run.
package statebackend
