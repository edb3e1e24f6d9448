// SPDX-License-Identifier: Apache-2.0

// Package server is one running `okara serve`: its settings, the registry behind it, the
// services on its one port, and its life from reading the settings to the end of the last
// download.
//
// # One port
//
// A [Front] is everything on the port: one multiplexer over the services, which are
// listed in services.go. A service is an [net/http.Handler] plus its entries in the
// discovery document; adding a service is one line there. Handlers get the shared parts
// of the server as one [service.Kit]: access control, limits, recovery from panics, the
// log. In front of all services is the screen that keeps web pages out (front.go).
// Health, discovery, the metrics and the mounts of other handlers are this package's own
// services; modules and providers are those of package registry.
//
// # Settings
//
// [Settings] holds all settings. A file sets its fields by their hcl tags
// ([Settings.Read]); the rest of the file belongs to the [Extension]. Flags and variables
// are bound to the same fields and set afterwards, so the order alone decides which value
// wins, and a setting has one name. Durations and sizes stay as they were written
// ([syntax.Duration], [syntax.Size]) and are checked when they are set, because a file
// and a flag share that form. Files that settings name, such as keys, tokens and secrets,
// are read when the server starts; rights and the keys of links are read again when their
// files change (reload.go). Every mistake is a [syntax.SettingError]; for one in the
// file, it names file and line.
//
// # The registry behind it
//
// The registry is a remote one, reached like any other ([Env]), or the embedded one,
// which is called in this process through a transport that pipes bodies in both
// directions (inprocess.go). The rest of the server cannot tell the difference, except
// for blobs that it may open as files.
//
// # Extensions
//
// The platform of instances is not part of this package. It is an [Extension], which adds
// blocks to the file, makes a claim on the core (to be served alone, to keep the keys of
// portals), hooks into decisions about requests, and serves its own routes.
//
// # Life
//
// [Run] opens everything, listens, reports that it is ready, and serves until its context
// ends. Then /readyz fails while the server continues for the grace period, so that load
// balancers notice; downloads may finish, and the storage and the audit log are closed
// last. A depot file is run on its interval by one replica at a time: the lock is in the
// registry (depot.go).
package server
