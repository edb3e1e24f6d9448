/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock of package statebackend as its clients see it: a client holds it by an
 * id, each of its requests reaches any of several servers, and these stop between
 * any two of their requests and start without memory. claims.pml has the contention
 * of two ids without servers.
 *
 * Client 0 sends LOCK, PUTS writes and UNLOCK, each to any of SERVERS servers.
 * Client 1 sends LOCK and UNLOCK; with BRIEF it asks one server, and keeps the
 * lock that it gets; with ALONE there is no client 1. From the answer to LOCK until
 * UNLOCK is sent no other client gets the answer that it holds the lock, and no write
 * is refused, unless the lock was forced. A version is written by one claim and never
 * comes above a version that another holder knows. In the end, when no step is possible
 * any more, every client has its answer and no claim without an owner is live.
 *
 * A list reads one key after the other (default; DESCENDING reverses the
 * order), shows one point in time (WHOLE), or is a possibly old snapshot of a prefix
 * of one order of updates that includes its reader's last write and the updates that
 * were reported to its client (PREFIX).
 *
 * There are no infinite cycles either. Not modelled: the number of a seal beside an older
 * claim of the same client (sealNumber in internal/protocol/seal.go).
 *
 * Faults: STOPS servers stop, and the write they send may arrive late; GIVEUPS
 * times client 0 does not wait for the answer to a write and sends it again,
 * while the first server still works; REFUSED claims are answered by an error
 * and not applied; FORCES locks of client 0 are ended by a command of another
 * client. READS: a request of client 0 may be one that writes nothing.
 * TOMBSTONES: release by tombstone instead of DELETE.
 *
 * Each mutant leaves out one rule and must fail: OLD_CLAIM_FIRST (the old claim
 * is ended first), NO_LOOK (no look at older claims), ONE_LIST (one list of
 * unlock), COMMIT_FIRST (commit before the list), NO_SEAL (no seal: released
 * without one as if above all that older claims may write), LOW_NUMBER (first
 * number too low), UNCONFIRMED (commit on one torn list), SIBLINGS_STAY (a
 * refused client leaves older claims).
 */
#ifndef SERVERS
#define SERVERS 2
#endif
#ifndef PUTS
#define PUTS 1
#endif
#ifndef ASKS
#define ASKS 1                      /* times LOCK is sent by a client that is refused */
#endif
#ifndef PATIENCE
#define PATIENCE 1                  /* times a server starts a request again */
#endif
#ifndef LOOKS
#define LOOKS 2                     /* maximum times that a contender lists again */
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef GIVEUPS
#define GIVEUPS 0
#endif
#ifndef REFUSED
#define REFUSED 0
#endif
#ifndef FORCES
#define FORCES 0
#endif
#ifndef OWN_CLAIMS
#define OWN_CLAIMS 6                /* made by a client's servers in total */
#endif

#define JUMP 4                      /* the successor of an overtaken claim starts so far above it */
#define REACH (JUMP - 1)            /* numbers that a claim may write; PUTS < REACH */
#define CLAIMS (2 * OWN_CLAIMS)     /* those of client 0 first */
#define OWNER(c) ((c) / OWN_CLAIMS)
#define MAXN 32                     /* version numbers stay below */
#define SLOTS (SERVERS + 1)         /* of a client: one per server, one for force */
#ifdef ALONE
#define WORKERS(w) (w == 0 -> SERVERS : 0)
#else
#define WORKERS(w) SERVERS
#endif
#define BIT(c) (1 << (c))
#define NONE 255

/* The properties, by the names that spin prints for a violation. */
hidden byte twoHold;                 /* a client gets the answer that it holds while another holds */
hidden byte holderRefused;           /* a write is refused while its lock is held */
hidden byte acknowledgedUnknown;     /* a holder does not know an acknowledged version */
hidden byte versionWrittenTwice;     /* by two claims */
hidden byte versionAboveHolder;      /* another client's, above the versions that a holder knows */
hidden byte claimLeft;               /* in the end, without an owner */
hidden byte waitsForEver;            /* a client, in the end */
hidden byte ownClaimNotListed; hidden byte modelTooSmall; /* errors of the model */
#define MUST(what, broken) if :: what :: else -> assert(broken) fi

/* The registry. 0: no such tag, else the time of the write, which only PREFIX
 * uses. A claim's number is in its tag, the claim that it joined (0: none)
 * in its manifest. */
byte now = 0;
byte claimAt[CLAIMS]; byte goneAt[CLAIMS]; byte fence[CLAIMS]; byte root[CLAIMS];
byte endAt[CLAIMS]; byte forceAt[CLAIMS];
byte verAt[MAXN]; byte writer[MAXN];
byte made[2];                       /* claims of each client */

/* The write of a stopped server that may still arrive. */
mtype = { lateClaim, lateVersion, lateEnd, lateForce, lateGone };
mtype late; byte lateC; byte lateN;
bit cameLate = 0;

/* The clients. */
mtype = { asks, holds, writes, ends, done };
mtype stage[2]; byte working[2];    /* 1 + the slot that has the request, 0: not sent yet */
byte asksLeft[2]; byte putsLeft; byte sends[2];
byte known[2]; byte told[2]; bit forcedLock = 0;
byte acked = 0;

/* The servers. A slot is the part of a server for one client: its memory, and the work
 * on a request. Its phase names the request to the registry that it sends next. */
mtype = { lock, write, read, unlock, force };
mtype = { idle, gone, look, seeRoot, claims, check, confirm, seal, sealSeen, put, putSeen, leave, contend, bury, clear };
mtype job[2 * SLOTS]; mtype phase[2 * SLOTS];
byte mine[2 * SLOTS];               /* 1 + the claim of the lock that it remembers */
byte used = 0;                      /* servers that have received a request */
byte stops = STOPS; byte giveUps = GIVEUPS; byte refused = REFUSED; byte forces = FORCES;

#define HOLDING(w) (stage[w] == holds || stage[w] == writes)

#ifdef PREFIX
#define TICK now++
#define OWN own = now
#define SHOWS(at, gone) (at != 0 && at <= p && (gone == 0 || gone > p))
#else
#define TICK now = 1
#define OWN skip
#define SHOWS(at, gone) (at != 0 && gone == 0)
#endif
#define THERE(c) (claimAt[c] != 0 && goneAt[c] == 0)
#define LIVE(c) (THERE(c) && endAt[c] == 0 && forceAt[c] == 0)

/* Writes take effect. */
inline putClaim(c) { TICK; claimAt[c] = now }
inline deleteClaim(c) {
	TICK;
	if
	:: claimAt[c] != 0 && goneAt[c] == 0 -> goneAt[c] = now
	:: else
	fi
}
inline endClaim(c, forced) {
	TICK;
	if
	:: (forced) && forceAt[c] == 0 -> forceAt[c] = now
	:: !(forced) && endAt[c] == 0 -> endAt[c] = now
	:: else
	fi
}
inline putVersion(c, v) {
	TICK;
	MUST(v < MAXN, modelTooSmall);
	MUST(writer[v] == 0 || writer[v] == c + 1, versionWrittenTwice);
	writer[v] = c + 1;
	if
	:: verAt[v] == 0 -> verAt[v] = now
	:: else
	fi;
	MUST(!HOLDING(1 - OWNER(c)) || (OWNER(c) == 1 && forcedLock) || v <= known[1 - OWNER(c)], versionAboveHolder)
}

/* A server stops: its slots forget, and clients that wait for it send again. */
inline stop(s) {
	stops--;
	w = 0;
	do
	:: w < 2 ->
		phase[w * SLOTS + s] = gone; job[w * SLOTS + s] = 0; mine[w * SLOTS + s] = 0;
		if
		:: working[w] == w * SLOTS + s + 1 -> working[w] = 0
		:: else
		fi;
		w++
	:: else -> break
	od;
	w = 0
}
#define BUSY(s) (phase[s] != idle || mine[s] != 0 || phase[SLOTS + s] != idle || mine[SLOTS + s] != 0)
/* A server stops while it sends a write, which arrives later. */
#define MAY_STOP (stops > 0 && late == 0 && me % SLOTS < SERVERS)
inline stopLate(kind, c, v) {
	late = kind; lateC = c; lateN = v;
	stop(me % SLOTS)
}

/* A list: the claims that it shows, those with any tombstone and with a forced one,
 * and the highest version; lower versions do not matter. */
inline seeClaim(c) {
	if
	:: SHOWS(claimAt[c], goneAt[c]) -> shown = shown | BIT(c)
	:: else
	fi
}
inline seeEnd(c) {
	if
	:: SHOWS(endAt[c], 0) -> ended = ended | BIT(c)
	:: else
	fi;
	if
	:: SHOWS(forceAt[c], 0) -> ended = ended | BIT(c); over = over | BIT(c)
	:: else
	fi
}
inline seeVersions() {
	newest = MAXN - 1;
	do
	:: newest > 0 && !SHOWS(verAt[newest], 0) -> newest--
	:: else -> break
	od
}
/* A claim that joined a lock which has ended holds nothing, and a client that finds it
 * in the way ends it. A claim that arrived after its server stopped locks until it is
 * ended by force. */
#define ORPHAN(c) (STOPS > 0 && root[c] != 0 && !LIVE(root[c] - 1))
#ifdef BRIEF
#define EXEMPT(c) (cameLate || ORPHAN(c) || OWNER(c) == 1)
#else
#define EXEMPT(c) (cameLate || ORPHAN(c))
#endif

#define LISTS (phase[me] == look || phase[me] == check || phase[me] == confirm || phase[me] == sealSeen || phase[me] == putSeen || phase[me] == clear)
/* A request that lists is executed while READ; LIST is its last step. */
#if defined(PREFIX) || defined(WHOLE)
#define READ true
inline LIST() {
	i = 0;
	do
	:: i < CLAIMS -> seeClaim(i); seeEnd(i); i++
	:: else -> break
	od;
	i = 0;
	seeVersions();
	p = 0
}
#else
/* One key after the other: claims, versions, tombstones. Absent ones take no
 * time. */
#define LISTS (phase[me] == look || phase[me] == check || phase[me] == confirm || phase[me] == sealSeen || phase[me] == putSeen || phase[me] == clear)
#define KEYS (2 * CLAIMS + 1)
#define READ (step == KEYS)
#ifdef DESCENDING
#define KEY (KEYS - 1 - step)
#else
#define KEY step
#endif
#define CLAIM_KEY (KEY < CLAIMS)
#define END_KEY (KEY > CLAIMS)
#define ENDED_KEY (KEY - CLAIMS - 1)
inline readKey() {
	do
	:: step < KEYS && CLAIM_KEY && !THERE(KEY) -> step++
	:: step < KEYS && END_KEY && endAt[ENDED_KEY] == 0 && forceAt[ENDED_KEY] == 0 -> step++
	:: else -> break
	od;
	if
	:: step == KEYS
	:: step < KEYS && CLAIM_KEY -> seeClaim(KEY); step++
	:: step < KEYS && END_KEY -> seeEnd(ENDED_KEY); step++
	:: step < KEYS && KEY == CLAIMS -> seeVersions(); step++
	fi
}
inline LIST() { step = 0 }
#endif

/* CHOOSE how old a list is. */
#ifdef PREFIX
#define CHOOSE choose();
inline choose() {
	p = own;
	if
	:: told[who] > p -> p = told[who]
	:: else
	fi;
	do
	:: p < now -> p++
	:: break
	od
}
#else
#define CHOOSE
#endif

/* The next request is a list. */
inline list(ph) {
	phase[me] = ph; shown = 0; ended = 0; over = 0; newest = 0
}

/* The content of the last list: ours are the live claims of our client except the
 * current one, rivals those of the other client, floor is the first number that no
 * overtaken claim writes, above the first one that no claim of ours writes. A claim that
 * joins starts one higher, so that its number differs from that of a LOCK that came
 * before the claims of ours were overtaken. */
#define ALIVE(c) ((shown & BIT(c)) != 0 && (ended & BIT(c)) == 0)
inline weigh() {
	ours = 0; rivals = 0; floor = 0; above = 0; i = 0;
	do
	:: i < CLAIMS ->
		if
		:: (over & BIT(i)) != 0 && fence[i] + JUMP > floor -> floor = fence[i] + JUMP
		:: else
		fi;
		if
		:: ALIVE(i) && OWNER(i) != who -> rivals = rivals | BIT(i)
		:: ALIVE(i) && OWNER(i) == who && i != claim ->
			ours = ours | BIT(i);
			if
			:: fence[i] + REACH > above -> above = fence[i] + REACH
			:: else
			fi
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}
#define FOUND_ENDED (claim != NONE && (ended & BIT(claim)) != 0)
#define OUTNUMBERED (newest >= n || floor > n)

/* b is the lowest claim of a mask, or NONE. */
inline lowest(mask) {
	b = NONE; i = 0;
	do
	:: i < CLAIMS ->
		if
		:: (mask & BIT(i)) != 0 && (b == NONE || fence[i] < fence[b]) -> b = i
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}
/* Whether every rival joined a lock that has ended: its server died, or is about to
 * find out. */
inline orphans() {
	all = 1; i = 0;
	do
	:: i < CLAIMS ->
		if
		:: (rivals & BIT(i)) != 0 && (root[i] == 0 || ALIVE(root[i] - 1)) -> all = 0
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}
/* The claim by which the client won: the lowest of ours that joined no other. */
inline findRoot() {
	base = 0; i = 0;
	do
	:: i < CLAIMS ->
		if
		:: (ours & BIT(i)) != 0 && root[i] == 0 && (base == 0 || fence[i] < fence[base - 1]) -> base = i + 1
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* The claims of a mask get tombstones, clean ones below a number; bt decides what
 * follows. */
inline endAll(mask, below, after) {
	doomed = mask; limit = below; then = after;
	lowest(doomed);
	phase[me] = bury
}
/* Our claim, by which nothing was written, ends. */
inline withdraw(after) { phase[me] = leave; then = after }

/* A new claim, above what the last list shows. */
inline makeClaim() {
	weigh();
	if
	:: made[who] == OWN_CLAIMS -> answer(error)
	:: else ->
		n = newest + 1;
		if
		:: floor > n -> n = floor
		:: else
		fi;
#ifndef LOW_NUMBER
		if
		:: above + resume > n -> n = above + resume
		:: else
		fi;
#endif
		claim = who * OWN_CLAIMS + made[who];
		made[who]++;
		fence[claim] = n; root[claim] = base; looks = 0;
		phase[me] = claims
	fi
}
/* Begin again from the first list. */
inline anew() {
	claim = NONE; n = 0; base = 0;
	if
	:: tries < PATIENCE -> tries++; list(look)
	:: else -> answer(error)
	fi
}
inline won() {
	phase[me] = idle;
	mine[me] = claim + 1; mineKnown = newest; head = newest; next = n; shared = (ours != 0);
	if
	:: job[me] == write -> startPut()
	:: !resume && floor > newest -> phase[me] = seal; mine[me] = 0 /* an overtaken claim may write */
	:: else -> answer(yes)
	fi
}
inline startPut() { claim = mine[me] - 1; n = next; next++; phase[me] = put }

mtype = { yes, no, error };

/* The client gets the answer, if it still waits for this server. */
inline answer(how) {
	if
	:: working[who] == me + 1 ->
		working[who] = 0;
#ifdef PREFIX
		told[who] = now;
#endif
		if
		:: stage[who] == asks && how == yes ->
			stage[who] = holds; known[who] = mineKnown;
			MUST(head >= acked, acknowledgedUnknown);
			MUST(!HOLDING(1 - who) || (who == 1 && forcedLock), twoHold);
#ifdef BRIEF
			if
			:: who == 1 -> stage[who] = done
			:: else
			fi
#endif
		:: stage[who] == asks && how != yes ->
			asksLeft[who]--;
			if
			:: asksLeft[who] == 0 && how == error -> stage[who] = ends /* outcome unknown: the client unlocks */
			:: asksLeft[who] == 0 && how == no -> stage[who] = done
			:: else
			fi
		:: stage[who] == writes && how == yes ->
			stage[who] = holds; putsLeft--;
			if
			:: mineKnown > known[who] -> known[who] = mineKnown
			:: else
			fi
		:: stage[who] == writes && how == no ->
			MUST(forcedLock, holderRefused);
			stage[who] = ends
		:: stage[who] == ends && how == yes -> stage[who] = done
		:: stage[who] != asks && how == error ->
			sends[who]--;
			if
			:: sends[who] == 0 && stage[who] == writes -> stage[who] = ends; sends[who] = 3
			:: sends[who] == 0 && stage[who] == ends -> stage[who] = done
			:: else
			fi
		fi
	:: else
	fi;
	job[me] = 0; phase[me] = idle;
	forget()
}
inline forget() {
	shown = 0; ended = 0; over = 0; newest = 0; ours = 0; rivals = 0; floor = 0; above = 0; resume = 0;
	claim = NONE; n = 0; base = 0; tries = 0; looks = 0; before = 0; sealed = 0; all = 0; b = NONE; doomed = 0; limit = 0; then = 0; step = 0
}

proctype server(byte who; byte me) {
	byte next = 0, mineKnown = 0, head = 0, own = 0; /* of the lock that it remembers */
	bit shared = 0;                                  /* joined, and wrote nothing yet */
	short shown, ended, over, ours, rivals, doomed;
	byte newest, floor, above, claim = NONE, n, base, tries, looks, before, sealed, limit, step, i, p, b = NONE, w;
	bit all, resume;
	mtype then;
endServer:
	do
	/* A request of the client. */
	:: d_step { phase[me] == idle && job[me] != 0 ->
		if
		:: job[me] == lock -> mine[me] = 0; list(look)
		:: job[me] == write && mine[me] != 0 -> startPut()
		:: job[me] == read && mine[me] != 0 -> answer(yes)
		:: (job[me] == write || job[me] == read) && mine[me] == 0 -> resume = 1; list(look)
		:: job[me] == unlock && mine[me] != 0 ->
			claim = mine[me] - 1; mine[me] = 0;
#ifdef NO_SEAL
			shared = 0;
#endif
			if
			:: !shared -> sealed = fence[claim]; withdraw(clear)
			:: else -> endAll(BIT(claim), 0, clear)
			fi
		:: else -> list(clear)
		fi
	}
	:: d_step { phase[me] == gone ->
		next = 0; mineKnown = 0; head = 0; own = 0; shared = 0; p = 0; phase[me] = idle;
		forget()
	}
#if !defined(PREFIX) && !defined(WHOLE)
	:: d_step { LISTS && step < KEYS -> readKey() }
#endif

	:: atomic { phase[me] == look && READ -> CHOOSE d_step {        /* the first list */
		LIST();
		weigh();
		orphans();
		if
		:: resume && ours == 0 -> answer(no)
		:: resume && ours != 0 ->
#ifdef OLD_CLAIM_FIRST
			resume = 0; endAll(ours, 0, claims)
#else
			findRoot();
			if
			:: base == 0 -> answer(no)
			:: else -> phase[me] = seeRoot
			fi
#endif
		:: !resume && rivals != 0 && ours == 0 && all -> endAll(rivals, 0, claims)
		:: !resume && rivals != 0 && ours == 0 && !all -> answer(no)
		:: else -> makeClaim()
		fi
	} }
	:: d_step { phase[me] == seeRoot ->             /* GET of that claim */
		if
		:: THERE(base - 1) -> makeClaim()
		:: else -> anew()
		fi
	}

	:: d_step { phase[me] == claims ->              /* PUT of ours */
		putClaim(claim); OWN;
#ifdef COMMIT_FIRST
		if
		:: resume -> won()
		:: else -> list(check)
		fi
#else
		list(check)
#endif
	}
	:: d_step { phase[me] == claims && refused > 0 -> refused--; anew() }
	:: d_step { phase[me] == claims && MAY_STOP -> stopLate(lateClaim, claim, 0) }

	:: atomic { phase[me] == check && READ -> CHOOSE d_step {        /* the list after it */
		LIST();
		weigh();
		lowest(rivals);
		if
		:: FOUND_ENDED && resume -> anew()
		:: FOUND_ENDED && !resume -> answer(error)
		:: !FOUND_ENDED ->
			MUST((shown & BIT(claim)) != 0, ownClaimNotListed);
			if
#ifndef NO_LOOK
			:: resume && !ALIVE(base - 1) -> withdraw(look)
#endif
#if !defined(OLD_CLAIM_FIRST) && !defined(LOW_NUMBER)
			:: above > n -> withdraw(look)          /* another server joins beside us */
#endif
			:: else ->
				if
				:: !resume && rivals != 0 -> phase[me] = contend
				:: OUTNUMBERED -> withdraw(claims)
#ifdef PREFIX
				:: else -> won()
#else
				:: else ->
#ifdef UNCONFIRMED
					if
					:: resume -> won()
					:: else -> before = newest; doomed = shown; list(confirm)
					fi
#else
					before = newest; doomed = shown; list(confirm)
#endif
#endif
				fi
			fi
		fi;
	} }
	/* Rivals are live, too: the lowest waits and lists again, and so does a claim that
	 * may hold already. In the end all give up. */
	:: d_step { phase[me] == contend && looks < LOOKS && (ours != 0 || n < fence[b] || (n == fence[b] && claim < b)) -> looks++; list(check) }
	:: d_step { phase[me] == contend -> withdraw(no) }

	:: atomic { phase[me] == confirm && READ -> CHOOSE d_step {        /* one more list, of versions and ends */
		LIST();
		shown = doomed; doomed = 0;             /* as before, except for claims that have ended since */
		if
		:: before > newest -> newest = before
		:: else
		fi;
		before = 0;
		weigh();
		if
		:: FOUND_ENDED && resume -> anew()
		:: FOUND_ENDED && !resume -> answer(error)
		:: !FOUND_ENDED && OUTNUMBERED -> withdraw(claims)
		:: else -> won()
		fi
	} }

	:: d_step { phase[me] == seal ->                /* the head again, as our first version */
		putVersion(claim, n); OWN; before = newest; list(sealSeen)
	}
	:: d_step { phase[me] == seal && MAY_STOP -> stopLate(lateVersion, claim, n) }
	:: atomic { phase[me] == sealSeen && READ -> CHOOSE d_step {
		LIST();
		if
		:: FOUND_ENDED || newest > n -> answer(error)
		:: else ->
			mine[me] = claim + 1; head = before; mineKnown = n; next = n + 1; shared = 0;
			answer(yes)
		fi
	} }

	:: d_step { phase[me] == put -> putVersion(claim, n); OWN; list(putSeen) }
	:: d_step { phase[me] == put && MAY_STOP -> stopLate(lateVersion, claim, n) }
	:: atomic { phase[me] == putSeen && READ -> CHOOSE d_step {        /* the list after a version */
		LIST();
		if
		:: FOUND_ENDED || !(shown & BIT(claim)) || newest > n -> mine[me] = 0; resume = 1; anew()
		:: else ->
			mineKnown = n; shared = 0;
			if
			:: n > acked -> acked = n
			:: else
			fi;
			answer(yes)
		fi
	} }

	:: d_step { phase[me] == leave ->
#ifdef TOMBSTONES
		endClaim(claim, 0);
#else
		deleteClaim(claim);
#endif
		OWN; shown = shown & ~BIT(claim); claim = NONE;
		if
		:: then == look -> anew()
		:: then == claims -> makeClaim()
		:: then == clear -> list(clear)
		:: then == no ->
#ifdef SIBLINGS_STAY
			ours = 0;
#endif
			if
			:: ours == 0 -> answer(no)
			:: else -> endAll(ours, 0, no)
			fi
		fi
	}
#ifdef TOMBSTONES
	:: d_step { phase[me] == leave && MAY_STOP -> stopLate(lateEnd, claim, 0) }
#else
	:: d_step { phase[me] == leave && MAY_STOP -> stopLate(lateGone, claim, 0) }
#endif
	:: d_step { phase[me] == bury ->
		endClaim(b, fence[b] >= limit); OWN;
		ended = ended | BIT(b); doomed = doomed & ~BIT(b);
		if
		:: fence[b] >= limit -> over = over | BIT(b)
		:: else
		fi;
		lowest(doomed);
		if
		:: doomed != 0
		:: doomed == 0 && then == no -> answer(no)
		:: doomed == 0 && then == yes -> answer(yes)
		:: doomed == 0 && then == claims -> makeClaim()
		:: doomed == 0 && then == clear -> claim = NONE; list(clear)
		fi
	}
	:: d_step { phase[me] == bury && MAY_STOP ->
		if
		:: fence[b] >= limit -> stopLate(lateForce, b, 0)
		:: else -> stopLate(lateEnd, b, 0)
		fi
	}
	:: atomic { phase[me] == clear && READ -> CHOOSE d_step {        /* end live claims until a list shows none */
		LIST();
		weigh();
		if
		:: ours == 0 -> answer(yes)
#ifdef ONE_LIST
		:: else -> endAll(ours, sealed, yes)
#else
		:: else -> endAll(ours, sealed, clear)
#endif
		fi
	} }
	od
}

/* A client sends its next request to a server that is not working for it. */
inline send(who, s) {
	atomic {
		stage[who] != done && working[who] == 0 && phase[who * SLOTS + s] == idle && job[who * SLOTS + s] == 0 && s <= used ->
		if
		:: s == used -> used++     /* servers are interchangeable */
		:: else
		fi;
		if
		:: stage[who] == holds && who == 0 && putsLeft > 0 -> stage[who] = writes
		:: stage[who] == holds && (who == 1 || putsLeft == 0) -> stage[who] = ends
		:: else
		fi;
		working[who] = who * SLOTS + s + 1;
		if
		:: stage[who] == asks -> job[who * SLOTS + s] = lock
		:: stage[who] == writes -> job[who * SLOTS + s] = write
#ifdef READS
		:: stage[who] == writes -> job[who * SLOTS + s] = read
#endif
		:: stage[who] == ends -> job[who * SLOTS + s] = unlock
		fi
	}
}

/* Events that affect all clients. */
proctype world() {
	byte c, w;
endWorld:
	do
	:: send(0, 0)
	:: send(0, 1)
#if SERVERS > 2
	:: send(0, 2)
#endif
	:: send(1, 0)
#ifndef BRIEF
	:: send(1, 1)
#endif
	:: d_step { giveUps > 0 && working[0] != 0 && stage[0] == writes ->
		giveUps--; working[0] = 0;
#ifdef READS
		putsLeft--; stage[0] = holds
#endif
	}
	:: d_step { forces > 0 && stage[0] == holds -> forces--; forcedLock = 1; job[SERVERS] = force }
	:: d_step { stops > 0 && BUSY(0) -> stop(0) }
	:: d_step { stops > 0 && BUSY(1) -> stop(1) }
	:: d_step { late == lateClaim -> putClaim(lateC); late = 0; cameLate = 1 }
	:: d_step { late == lateVersion -> putVersion(lateC, lateN); late = 0 }
	:: d_step { late == lateEnd -> endClaim(lateC, 0); late = 0 }
	:: d_step { late == lateForce -> endClaim(lateC, 1); late = 0 }
	:: d_step { late == lateGone -> deleteClaim(lateC); late = 0 }
	:: d_step { late != 0 -> late = 0 }             /* or never */
	:: timeout ->
	d_step {
		MUST(stage[0] == done && stage[1] == done, waitsForEver);
		c = 0;
#if defined(PREFIX) && STOPS > 0
		c = CLAIMS;                 /* a refused client may leave a claim that no list shows yet */
#endif
		do
		:: c < CLAIMS ->
			MUST(!LIVE(c) || EXEMPT(c), claimLeft);
			c++
		:: else -> break
		od
	};
	break
	od
}

init {
	byte w = 0, s;
	d_step {
		putsLeft = PUTS;
		do
		:: w < 2 * SLOTS -> phase[w] = idle; w++
		:: else -> break
		od;
		w = 0;
		do
		:: w < 2 -> stage[w] = asks; asksLeft[w] = ASKS; sends[w] = 3; w++
		:: else -> break
		od;
#ifdef ALONE
		stage[1] = done;
#endif
		w = 0
	};
	atomic {
		do
		:: w < 2 ->
			s = 0;
			do
			:: s < WORKERS(w) || (s == SERVERS && w == 0 && FORCES > 0) -> run server(w, w * SLOTS + s); s++
			:: else -> break
			od;
			w++
		:: else -> break
		od;
		run world()
	}
}
