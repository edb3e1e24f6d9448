// SPDX-License-Identifier: Apache-2.0

// Package sample creates a server for a quick trial: modules, a provider, states,
// templates and two users, all of them fictitious.
//
// [Write] writes the files that the server reads at its start into a folder, and
// [Server.Fill] publishes the rest over the server's port once it answers, as a client
// would. Nothing needs the internet: the modules have no provider, and the packages of
// the provider hold a script that says so.
package sample
