/* SPDX-License-Identifier: Apache-2.0
 *
 * Why one shared lock tag is not enough: check it, write it, read it back once
 * (VERIFY=1) or twice (VERIFY=2). Every variant lets two clients hold at once.
 */
#ifndef VERIFY
#define VERIFY 0
#endif
#define CLIENTS 2

byte tag = 0;      /* 0: no tag, else its writer */
byte holders = 0;

proctype client(byte me) {
	byte tries = 0;
	do
	:: tries < 2 ->
		tries++;
		if
		:: tag != 0 -> goto next
		:: else
		fi;
		tag = me;
#if VERIFY >= 1
		if
		:: tag != me -> goto next
		:: else
		fi;
#endif
#if VERIFY >= 2
		if
		:: tag != me -> goto next
		:: else
		fi;
#endif
		atomic { holders++; assert(holders == 1) };
		holders--;
		tag = 0;
next:		skip
	:: else -> break
	od
}

init { atomic { run client(1); run client(2) } }
