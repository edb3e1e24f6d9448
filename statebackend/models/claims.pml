/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock of package statebackend: claims under unique tags, decided on lists.
 *
 * A list reads one key after the other (default; DESCENDING reverses the
 * order), or is a possibly old snapshot of a prefix of one order of updates
 * that has its reader's own last write (PREFIX).
 *
 * Each mutant leaves out one rule and must fail: NO_L3, NO_SEAL, NO_JUMP,
 * CHECK_FIRST, FORCE_DELETES, FORCE_ONLY (a force-unlock ends the lock and does not take
 * it to copy the head), with PREFIX also NO_OWN, with GHOSTS also
 * GHOST_IGNORED (skip an abandoned claim without ending it) and GHOST_CLEAN (end it
 * without a jump), and with TICKS also LEASE_UNSEEN (end a lease by the
 * registry's clock alone).
 *
 * Faults: TAKEOVERS locks end any holder's; CRASHES clients die at a write,
 * which may still arrive; LOST answers of claims are lost, and the claim may
 * arrive late; GHOSTS claims are listed before they can be read, and become
 * readable much later or never. TOMBSTONES: release by tombstone instead of
 * DELETE.
 *
 * TICKS thirds of a lease pass, while no client is taking or releasing a lock,
 * which is short compared with it. In each, running holders renew their claims. By the
 * registry's clock every lease has expired. A GET shows the last heartbeat.
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef CYCLES
#define CYCLES 1
#endif
#ifndef PUTS
#define PUTS 1
#endif
#ifndef TAKEOVERS
#define TAKEOVERS 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef LOST
#define LOST 0
#endif

#ifndef GHOSTS
#define GHOSTS 0
#endif

#define JUMP 3                      /* PUTS < JUMP */
#define CLAIMS (CLIENTS * CYCLES)   /* one per attempt */
#define MAXN 20                     /* version numbers stay below */
#define FORCED 2

/* The registry. claimAt, endAt, verAt: 0 if there is no such tag, else the time of
 * the write, which only PREFIX uses. */
byte now = 0;
byte claimAt[CLAIMS]; byte goneAt[CLAIMS]; byte fence[CLAIMS];
byte endAt[CLAIMS]; byte endHow[CLAIMS];
byte verAt[MAXN]; byte writer[MAXN];

/* What may still arrive: one write. */
byte lateKind = 0; byte lateClaim; byte lateN;

/* Budgets and observers. */
byte ghosts = GHOSTS; bit half[CLAIMS]; /* listed, but its GET answers 404 */
byte takeOvers = TAKEOVERS; byte crashes = CRASHES; byte lost = LOST;
#ifdef TICKS
byte tick = 0; byte beat[CLAIMS];
bit runs[CLAIMS];                   /* the owner of the claim is alive */
byte moving = 0;                    /* owners that are taking or releasing */
#define ENTER runs[me] = 1; moving++
#define HOLD moving--
#define RELEASE moving++
#define EXIT runs[me] = 0; moving--
#define DIE runs[me] = 0
#else
#define ENTER skip
#define HOLD skip
#define RELEASE skip
#define EXIT skip
#define DIE skip
#endif
bit holds[CLAIMS]; byte known[CLAIMS]; byte head[CLAIMS];
byte acked = 0;
bit over[CLAIMS];                   /* taken over by a client that has its lock, or ended by a force-unlock that has answered */
byte top = 0;                       /* the highest version */

#ifdef PREFIX
#define TICK now++
#else
#define TICK now = 1
#endif

#define OVERTAKEN(c) (endAt[c] != 0 && endHow[c] == FORCED)

#ifdef TICKS
inline putClaim(c) { TICK; claimAt[c] = now; beat[c] = tick }
#else
inline putClaim(c) { TICK; claimAt[c] = now }
#endif
inline endClaim(c, how) {
	TICK;
	if
	:: endAt[c] == 0 -> endAt[c] = now
	:: else
	fi;
	if
	:: endHow[c] != FORCED -> endHow[c] = how
	:: else
	fi
}
inline deleteClaim(c) {
#ifdef PREFIX
	TICK; goneAt[c] = now
#else
	claimAt[c] = 0
#endif
}

/* A version appears: no other client wrote that number, and it does not sort above
 * the versions that another holder knows. */
inline putVersion(c, n) {
	TICK;
	assert(n < MAXN);
	assert(writer[n] == 0 || writer[n] == c + 1);
	writer[n] = c + 1;
	if
	:: verAt[n] == 0 -> verAt[n] = now
	:: else
	fi;
	assert(!over[c] || n < top);    /* it is not the current state, also if nobody holds */
	if
	:: n > top -> top = n
	:: else
	fi;
	b = 0;
	do
	:: b < CLAIMS ->
		assert(b == c || !holds[b] || OVERTAKEN(b) || n <= known[b]);
		b++
	:: else -> break
	od;
	b = 0
}

#ifdef PREFIX
#define SHOWS(at, gone) (at != 0 && at <= p && (gone == 0 || gone > p))
#define STEP d_step
#else
#define SHOWS(at, gone) (at != 0)
#define STEP
#endif

/* Reading the three kinds of keys, one key per step unless PREFIX. */
inline readClaims() {
	i = 0;
	do
	:: i < CLAIMS -> d_step { sc[i] = SHOWS(claimAt[i], goneAt[i]); i++ }
	:: else -> break
	od;
	i = 0
}
inline readEnds() {
	i = 0;
	do
	:: i < CLAIMS ->
		d_step {
			if
			:: SHOWS(endAt[i], 0) -> se[i] = endHow[i]
			:: else -> se[i] = 0
			fi;
			i++
		}
	:: else -> break
	od;
	i = 0
}
inline readVersions() {
	i = 1; newest = 0;
	do
	:: i < MAXN ->
		d_step {
			do
			:: i < MAXN && !SHOWS(verAt[i], 0) -> i++ /* absent keys take no time */
			:: else -> break
			od;
			if
			:: i < MAXN -> newest = i; i++
			:: else
			fi
		}
	:: else -> break
	od;
	i = 0
}
inline list() {
#ifdef PREFIX
	atomic {
#ifdef NO_OWN
		p = 0;
#else
		p = own;
#endif
		do
		:: p < now -> p++
		:: break
		od;
		readClaims(); readVersions(); readEnds(); p = 0
	}
#else
#ifdef DESCENDING
	readEnds(); readVersions(); readClaims()
#else
	readClaims(); readVersions(); readEnds()
#endif
#endif
}

/* A live claim that may be ended: it is the only one, and it could not be read
 * before or its lease has expired. */
#define MET (ghost != 0 && rivals == 1 && sc[ghost - 1] && se[ghost - 1] == 0)
#ifdef GHOST_IGNORED
#define IGNORES(c) (ghost == c + 1)
#else
#define IGNORES(c) false
#endif
#ifdef GHOST_CLEAN
#define ENDS 1
#else
#define ENDS FORCED
#endif

/* The content of a list: rivals (live claims except mine) and the floor of numbers. */
inline weigh() {
	d_step {
		rivals = 0; floor = 0; i = 0;
		do
		:: i < CLAIMS ->
			if
			:: sc[i] && se[i] == 0 && i != me && !IGNORES(i) -> rivals++
			:: else
			fi;
#ifndef NO_JUMP
			if
			:: se[i] == FORCED && fence[i] + JUMP > floor -> floor = fence[i] + JUMP
			:: else
			fi;
#endif
			i++
		:: else -> break
		od;
		i = 0
	}
}
#ifdef TICKS
#define LOOK atomic { if :: met == 0 || tick > lastAt -> cycle-- :: else fi } /* one per tick is free */
/* The same heartbeat, observed for two thirds of the lease without a gap longer than
 * one third. */
inline watch(c) {
	atomic {
		if
		:: met == c + 1 && metBeat == beat[c] && tick <= lastAt + 1
		:: else -> met = c + 1; metBeat = beat[c]; metAt = tick
		fi;
		lastAt = tick;
		if
#ifdef LEASE_UNSEEN
		:: true ->
#else
		:: tick >= metAt + 2 ->
#endif
			ghost = c + 1;
			assert(!(holds[c] && runs[c]))      /* a lease that is renewed does not end */
		:: else
		fi
	}
}
#else
#define LOOK skip
inline watch(c) { skip }
#endif
/* GET of the live claims: one that is not found may be ended next time, and so
 * may one whose lease has expired. */
inline meet() {
	b = 0;
	do
	:: b < CLAIMS ->
		if
		:: sc[b] && se[b] == 0 && half[b] -> ghost = b + 1
		:: sc[b] && se[b] == 0 && !half[b] -> watch(b)
		:: else
		fi;
		b++
	:: else -> break
	od;
	b = 0
}
inline forget() {
	d_step {
		i = 0;
		do
		:: i < CLAIMS -> sc[i] = 0; se[i] = 0; i++
		:: else -> break
		od;
		i = 0; rivals = 0; floor = 0; newest = 0
	}
}
/* From now on no write of the claims that this client took over may be current. */
inline answered() {
	d_step {
		b = 0;
		do
		:: b < CLAIMS -> over[b] = over[b] || (ended >> b) & 1; b++
		:: else -> break
		od;
		b = 0; ended = 0
	}
}
#ifdef PREFIX
#define OWN own = now
#else
#define OWN skip
#endif

inline leave() {
#ifdef TOMBSTONES
	atomic { endClaim(me, 1); OWN; EXIT }
#else
	atomic { deleteClaim(me); OWN; EXIT }
#endif
}

proctype client(byte id) {
	byte ghost = 0, cycle = 0, me, i, b, p, own, newest, rivals, floor, puts, n, before, ended = 0;
	bit sc[CLAIMS]; byte se[CLAIMS];
#ifdef TICKS
	byte met = 0, metBeat = 0, metAt = 0, lastAt = 0;
#endif
next:
	atomic {
		forget();
		me = id * CYCLES + cycle; puts = 0; n = 0; before = 0; ended = 0;
		cycle++
	}
	if
	:: cycle > CYCLES -> goto done
	:: else
	fi;
	list();                                     /* L1 */
	weigh();
	if
	:: rivals > 0 && takeOvers == 0 && !MET -> LOOK; meet(); goto next
	:: rivals > 0 && MET ->
		atomic { endClaim(ghost - 1, ENDS); OWN; se[ghost - 1] = ENDS };
		weigh()
	:: rivals > 0 && takeOvers > 0 ->
		takeOvers--;
		b = 0;
		do
		:: b < CLAIMS ->
			if
			:: sc[b] && se[b] == 0 ->
#ifdef FORCE_DELETES
				atomic { deleteClaim(b); OWN; sc[b] = 0 }
#else
				atomic { endClaim(b, FORCED); OWN; se[b] = FORCED; ended = ended | (1 << b) }
#endif
			:: else
			fi;
			b++
		:: else -> break
		od;
		b = 0;
#ifdef FORCE_ONLY
		answered(); goto done;
#endif
		weigh()
	:: rivals == 0
	fi;
	d_step {
		n = newest + 1;
		if
		:: floor > n -> n = floor
		:: else
		fi;
		fence[me] = n
	}
	if                                          /* the claim */
	:: atomic { putClaim(me); OWN; ENTER }
	:: atomic { ghosts > 0 -> ghosts--; putClaim(me); OWN; half[me] = 1 };
		if
		:: atomic { half[me] = 0; ENTER }
		:: goto done                        /* the registry died, and this client too */
		fi
	:: atomic { lost > 0 && lateKind == 0 -> lost--; lateKind = 1; lateClaim = me };
		atomic { endClaim(me, 1); OWN }
		goto next
	:: atomic { crashes > 0 -> crashes--; putClaim(me) }; goto done
	fi;
	forget();
	list();                                     /* L2 */
	weigh();
	if
	:: se[me] != 0 -> atomic { EXIT; goto next }
#ifndef NO_OWN
	:: se[me] == 0 && !sc[me] -> assert(false)  /* the list includes our last write */
#endif
	:: else
	fi;
	if
	:: rivals > 0 || newest >= n || floor > n -> leave(); goto next
	:: else
	fi;
#if !defined(NO_L3) && !defined(PREFIX)
	before = newest;
	list();                                     /* L3 */
	weigh();
	if
	:: se[me] != 0 -> atomic { EXIT; goto next }
	:: se[me] == 0 && (newest >= n || floor > n) -> leave(); goto next
	:: else
	fi;
	if
	:: before > newest -> newest = before
	:: else
	fi;
	before = 0;
#endif
	before = newest;                            /* the head that we know */
#ifndef NO_SEAL
	if
	:: floor > newest ->
		atomic { putVersion(me, n); OWN };
		newest = n; n++; puts = 1               /* the seal took a number */
	:: else
	fi;
#endif
	atomic {                                    /* Lock returns */
		HOLD; holds[me] = 1; known[me] = newest; head[me] = before;
		assert(OVERTAKEN(me) || before >= acked);
		b = 0;
		do
		:: b < CLAIMS ->
			assert(b == me || !holds[b] || OVERTAKEN(b) || OVERTAKEN(me));
			b++
		:: else -> break
		od;
		b = 0;
		forget(); before = 0; puts = 0
	}
	answered();
	do
	:: puts < PUTS ->
		puts++;
#ifdef CHECK_FIRST
		list();
		if
		:: se[me] != 0 -> goto release
		:: else
		fi;
#endif
		if
		:: atomic { putVersion(me, n); known[me] = n; OWN }
		:: atomic { crashes > 0 && lateKind == 0 -> crashes--; lateKind = 2; lateClaim = me; lateN = n; DIE }; goto done
		fi;
		forget();
#ifndef CHECK_FIRST
		list();
		if
		:: se[me] != 0 || newest > n || !sc[me] ->
			assert(OVERTAKEN(me));              /* a contender never makes a Put fail */
			goto release
		:: else
		fi;
#endif
		atomic {                                /* Put returns: acknowledged */
			if
			:: n > acked -> acked = n
			:: else
			fi;
			head[me] = n;
			b = 0;
			do
			:: b < CLAIMS ->
				assert(b == me || !holds[b] || OVERTAKEN(b) || head[b] >= n);
				b++
			:: else -> break
			od;
			b = 0;
			forget()
		};
		n++
	:: else -> break
	od;
release:
	atomic { holds[me] = 0; RELEASE; forget() };
	leave();
	goto next;
done:	skip
}

/* A write whose sender died or gave up arrives at any time, or never. */
proctype net() {
	byte b;
end:	do
	:: atomic { lateKind == 1 -> putClaim(lateClaim); lateKind = 3 }
	:: atomic { lateKind == 2 -> putVersion(lateClaim, lateN); lateKind = 3 }
#ifdef TICKS
	:: atomic { tick < TICKS && moving == 0 ->
		tick++;
		do
		:: b < CLAIMS ->
			if
			:: holds[b] && runs[b] -> beat[b] = tick
			:: else
			fi;
			b++
		:: else -> break
		od;
		b = 0
	}
#endif
	od
}

init {
	byte c = 0;
	atomic {
		run net();
		do
		:: c < CLIENTS -> run client(c); c++
		:: else -> break
		od
	}
}
