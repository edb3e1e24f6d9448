// SPDX-License-Identifier: Apache-2.0

// Command perf measures the cost of okara, of one program or of two by turns in the same
// run, and writes one page. make bench runs it:
//
//	perf [-base FILE] [-tofu FILE] [-oras FILE] [-registry FILE] [-o FILE] [-command TEXT] [-only TEXT] [-scale N] OKARA
//
// Figures of one machine mean little alone, so each row has a ratio: to the base, or to what does
// the same work without okara. With -scale 10 the works are ten times as large, but the mirror, to see how costs grow.
//
// Limits that profiles showed:
//   - Start of a command: of 15 ms of processor 12 pass before main, which a program with the same packages and
//     an empty main takes as well: half is package initialization, in libraries that one program has for its
//     server (Markdown 2.3, the registry 0.6, key services 1), half the first touch of its pages. Go
//     initializes what is linked; only a second program would not have them.
//   - Memory of a command: of 43 MiB an empty main takes 42; 32 are pages of the program's file, which processes share.
//   - First page of a README of 100 KB with 400 blocks of code and as many tables: 48 ms for the text, of which 15
//     are the filter of the policy, 9 the parser, 7 new addresses of links; the rest is what the server does after its start.
//   - Publishing into the built-in registry: of the server's processor time for a module a quarter
//     is in distribution's handlers, a sixth in fsync, which each tag and blob needs.
//   - A large module: 1.8 to 1.9 times one parse, which is half of it; a tenth each are the checks of its expressions,
//     the collector and both archives, and 4 % its description.
//   - Mirror: each zip is unpacked for its h1: hash, which a copy by digest does not need.
//   - Warm list: a bare handler's 13 µs of processor and 75 allocations, and 16 of them more: 7 in the path of the one
//     multiplexer, 4 in limits of time and of clients, 2 in the audit record, which clones what is part of a request.
package main
