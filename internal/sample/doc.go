// SPDX-License-Identifier: Apache-2.0

// Package sample makes a server that somebody can try in a minute: modules, a provider,
// states, templates and two people, all of them made up.
//
// [Write] writes what the server reads before it starts, into a folder of its own, and
// [Server.Fill] publishes the rest through the server's own port once it answers, as a
// client would. Nothing needs the internet: the modules have no provider, and the
// packages of the provider hold a script that says so.
package sample
