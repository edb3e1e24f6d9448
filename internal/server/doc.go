// SPDX-License-Identifier: Apache-2.0

// Package server is one running `okara serve`: what can be set of it, the
// registry behind it, what it serves on one port, and its life from the first
// line of the settings to the last download.
//
// # One port
//
// A [Front] is everything on the port: one multiplexer over the services, which
// are listed in services.go. A service is an [net/http.Handler] plus what it adds
// to the discovery document, and adding one is one line there. What its handlers
// need of the server comes to them as one [service.Kit]: who may do what, limits,
// panics, the log. In front of all is the screen that keeps web pages out
// (front.go). Health, discovery, the metrics and the mounts of other handlers
// are this package's own services; modules and providers are those of package
// registry.
//
// # Settings
//
// [Settings] is the struct of them. A file sets its fields by their hcl tags
// ([Settings.Read]), and what it leaves belongs to the [Extension]; flags and variables are bound to the same fields and set
// afterwards, so what wins is decided by the order alone and a setting has one
// name. Lengths and sizes stay as they were written ([syntax.Duration], [syntax.Size]), checked
// when they are set, because that is what a file and a flag have in common. What
// refers to files, such as keys, tokens and secrets, is read when the server
// starts; rights and the keys of links are read again when their files change
// (reload.go). Every mistake is a [syntax.SettingError]; one of the file names file and line.
//
// # What is behind it
//
// The registry is another one, reached as the process reaches any ([Env]), or the
// embedded one, which is asked in this process through a transport that pipes
// bodies in both directions (inprocess.go). The rest of the server cannot tell
// the difference, but for blobs that it may open as files.
//
// # What is beside it
//
// The platform of instances is no part of this package. It comes in as an [Extension],
// by which it has blocks of the file, a claim on the core (to be served alone, to keep
// keys of portals), hooks in decisions about requests, and what it serves.
//
// # Life
//
// [Run] opens everything, listens, says so, and serves until its context ends.
// Then it is not ready, goes on for the grace so that load balancers notice, lets
// downloads finish, and closes the storage and the audit log last. A depot file
// is run on its interval by one replica at a time: the lock is in the registry
// (depot.go).
package server
